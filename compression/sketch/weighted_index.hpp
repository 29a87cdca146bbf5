#pragma once
// A coordinate with what is known or estimated of it.

#include <cstdint>

namespace gleaner {

struct WeightedIndex {
  std::uint32_t index = 0;
  std::int64_t weight = 0;

  bool operator==(const WeightedIndex&) const = default;
};

}  // namespace gleaner
