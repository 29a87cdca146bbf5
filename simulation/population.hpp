#pragma once
// The data of an experiment: the samples of all devices in memory once, who has which of them, and the test set.

#include <memory>
#include <string>

#include "common/error.hpp"
#include "simulation/experiment.hpp"
#include "training/dataset.hpp"
#include "training/device_partition.hpp"

namespace gleaner::simulation {

struct PopulationData {
  std::string label;  // of Experiment::data_label()
  Dataset train;
  Dataset test;
  std::unique_ptr<const DevicePartition> partition;  // of train
};

// Errors: bad_input (other samples than the file says, too few of them), not_found (no such data, says what to do),
// corrupt (damaged files).
Result<PopulationData> load_population(const Experiment& experiment);

// Who has what, for people, with the name of the data over it.
std::string split_table(const PopulationData& population);

}  // namespace gleaner::simulation
