#pragma once
// The three things that `gleaner doctor` looks at, each by the path of its file.

#include <string>

#include "cli/doctor/findings.hpp"

namespace gleaner::cli {

void check_coordinator(const std::string& file, Findings& findings);
void check_client(const std::string& file, Findings& findings);
void check_run(const std::string& file, Findings& findings);

}  // namespace gleaner::cli
