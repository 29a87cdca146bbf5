#pragma once
// The target of a request, "/v1/runs/NAME?rounds=5", strictly: absolute paths, percent-encoded UTF-8 without control
// characters, no empty or dot segments, each query key once. Errors: bad_input.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace gleaner::admin {

struct Target {
  std::vector<std::string> segments;  // decoded
  std::map<std::string, std::string> query;
};

Result<Target> parse_target(std::string_view text);

// The query's number under key, or fallback when it has none. Errors: bad_input for anything but 1 to max.
Result<std::uint32_t> count_in(const Target& target, const std::string& key, std::uint32_t fallback, std::uint32_t max);

// Errors: bad_input for keys that are not among the known ones, which would be misspellings.
Status check_query(const Target& target, const std::vector<std::string>& known);

// Percent-encodes everything but unreserved characters (RFC 3986, 2.3).
std::string encode_component(std::string_view text);

}  // namespace gleaner::admin
