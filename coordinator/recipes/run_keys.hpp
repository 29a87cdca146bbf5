#pragma once
// The keys of a run's file, and which of them go together.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compression/payload.hpp"
#include "config/reading.hpp"
#include "coordinator/run_settings.hpp"

namespace gleaner {

// A run's file while it is read: the settings, and what is worked out of afterwards.
struct RunFile {
  RunSettings settings;
  double fraction_fit = 1.0;
};

// With the defaults of the recipe that the file names; of the default recipe where it names none or an unknown one,
// which its key then reports.
RunFile run_file_with_defaults(const config::Reading& reading);

config::Schema run_schema(RunFile& file);

std::vector<std::pair<std::string, ValueFormat>> value_format_names();

// The sizes of well-known data, the model that follows, and the values that depend on others: mistakes go to reading.
void resolve_run(RunFile& file, config::Reading& reading);

// Whether devices send differences to a state that both ends keep: the rules with MemoryKind::tracked.
bool follows_tracked_state(std::string_view upload_rule);

// Combinations that make no sense, each with the reason.
void check_combinations(const RunSettings& settings, config::Reading& reading);

// Of a file whose test set can come from data.evaluation alone.
void check_evaluation(config::Reading& reading);

}  // namespace gleaner
