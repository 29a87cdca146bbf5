#pragma once
// What lies in the folder of an experiment that went to its end.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "simulation/experiment.hpp"
#include "simulation/output/round_output.hpp"

namespace gleaner::simulation {

struct FinishedExperiment {
  std::vector<RoundRecord> rounds;
  std::uint64_t model_hash = 0;
};

// folder: with rounds.jsonl and state/. Nothing: the experiment there has rounds to go.
// Errors: those of Federation::check_resume and read_recording.
Result<std::optional<FinishedExperiment>> find_finished(const Experiment& experiment, const std::string& folder);

}  // namespace gleaner::simulation
