#pragma once
// Runs gnuplot, found on PATH, with a script on its standard input. Waits for its end.

#include <string_view>

#include "common/error.hpp"

namespace gleaner::simulation {

// Errors: not_found when there is none; fatal when it fails, with the first line of what it says.
Status run_gnuplot(std::string_view script);

}  // namespace gleaner::simulation
