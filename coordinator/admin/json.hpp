#pragma once
// What an operator sees, as JSON; docs/administration.md is its reference. Identifiers and hashes are hexadecimal
// strings, since many readers keep numbers in 53 bits; numbers that are not finite become null.

#include <string>
#include <vector>

#include "coordinator/admin/backend.hpp"

namespace gleaner::admin {

std::string to_json(const RunStatus& run);
std::string to_json(const std::vector<RunStatus>& runs);
std::string to_json(const RunDetail& detail);
std::string to_json(const std::vector<DeviceStatus>& devices);
std::string to_json(const Health& health);
std::string to_json(const Error& error);
std::string audit_to_json(const std::vector<std::string>& entries);

}  // namespace gleaner::admin
