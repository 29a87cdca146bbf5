#pragma once
// Everything a coordinator knows of a run: what devices are offered (RunSpec) and how rounds are planned, stepped and
// closed. Made from the operator's TOML file and a recipe; stored resolved, every setting explicit, so that a later
// release with other defaults goes on with the same run.

#include <cstdint>
#include <string>

#include "aggregation/server_model.hpp"
#include "common/clock.hpp"
#include "common/error.hpp"
#include "protocol/run_spec.hpp"
#include "scheduling/planner.hpp"
#include "training/dataset.hpp"

namespace gleaner {

struct RunSettings {
  RunSpec spec;
  DatasetShape shape;         // of the samples; with spec.model and hidden_units it makes the model
  std::uint32_t rounds = 60;  // versions to commit; the run then is finished
  std::string planner = "joint";
  PlannerSettings planning;  // dimension, seed, epochs and batch are taken from spec
  ServerStepOptions step;
  bool fixed_divisor = true;         // false: the weight that arrived (dense FedAvg)
  double density_down = 0.005;       // k' / dimension
  std::uint32_t staleness_max = 2;   // a late update whose base is at most so many versions old enters the open round
  std::string evaluation_data;       // directory of the held-out test set; empty: no evaluation
  std::uint32_t evaluate_every = 1;  // versions
  std::uint32_t patches_kept = 256;  // versions that a returning device may be brought up from by patches
};

// From the operator's file: all mistakes at once, each with file, line, key, what was expected and the nearest known
// key. path is for messages. The run's id is left zero; the model's dimension and schema hash are filled in.
Result<RunSettings> parse_run_settings(const std::string& toml_text, const std::string& path);

// The file's keys and the recipes as Markdown, for the reference.
std::string run_settings_reference();

// The resolved settings as TOML and back: from_stored(to_stored(s)) == s, to the last bit of every number.
std::string to_stored(const RunSettings& settings);
Result<RunSettings> from_stored(const std::string& text);

}  // namespace gleaner
