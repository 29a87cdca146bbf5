#pragma once
// The keys of an experiment's file, and which of them go together.

#include <list>
#include <string_view>

#include "config/reading.hpp"
#include "coordinator/recipes/run_keys.hpp"
#include "simulation/experiment.hpp"

namespace gleaner::simulation {

// A file while it is read: what is bound to keys must not move.
struct ExperimentFile {
  RunFile run;
  Experiment experiment;  // run and classes are filled in at the end
  std::list<DeviceClass> classes;
};

// The simulator's own sections; those of the run come before them in whole_schema().
config::Schema own_schema(ExperimentFile& file);
config::Schema whole_schema(ExperimentFile& file);

// The section whose keys change no result.
inline constexpr std::string_view kMachineSection = "simulation";

// Combinations that make no sense, each with the reason.
void check_experiment(const Experiment& experiment, config::Reading& reading);

}  // namespace gleaner::simulation
