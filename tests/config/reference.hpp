#pragma once
// docs/configuration.md as the tables of keys say that it must be.

#include <string>

namespace gleaner {

std::string configuration_reference();

}  // namespace gleaner
