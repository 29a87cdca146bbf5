#pragma once
// The faults of a payload as a whole, named in one way by both of its readers.

#include <fmt/format.h>

#include <cstddef>

#include "common/refusal.hpp"

namespace gleaner {

inline std::unexpected<Refusal> in_group(std::size_t group, const Refusal& refusal) {
  return refuse(refusal.code(), fmt::format("group {}: {}", group, refusal.detail()));
}

inline std::unexpected<Refusal> trailing(std::size_t bytes) {
  return refuse(RefusalCode::malformed, fmt::format("{} bytes behind the last group", bytes));
}

}  // namespace gleaner
