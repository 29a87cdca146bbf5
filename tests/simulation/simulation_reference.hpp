#pragma once
// docs/simulation-configuration.md as the tables of keys say that it must be.

#include <string>

namespace gleaner {

std::string simulation_reference();

}  // namespace gleaner
