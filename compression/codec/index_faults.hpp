#pragma once
// The faults of coded indices, named in one way by every format.

#include <fmt/format.h>

#include <cstdint>
#include <span>

#include "common/refusal.hpp"

namespace gleaner::codec {

inline std::unexpected<Refusal> cut_off() { return refuse(RefusalCode::malformed, "the indices are cut off"); }

inline std::unexpected<Refusal> bad_padding() {
  return refuse(RefusalCode::malformed, "padding bits behind the indices are not zero");
}

inline std::unexpected<Refusal> out_of_range(std::uint64_t index, std::uint32_t size) {
  return refuse(RefusalCode::index_out_of_range, fmt::format("index {} in a group of {}", index, size));
}

// The first of the indices that is not above the one before; before the first stands *last, where there is one.
inline std::unexpected<Refusal> not_ascending(std::span<const std::uint32_t> indices, const std::uint32_t* last) {
  std::size_t j = 0;
  std::uint32_t before = last != nullptr ? *last : 0;
  if (last == nullptr) before = indices[j++];
  while (j + 1 < indices.size() && indices[j] > before) before = indices[j++];
  const bool again = indices[j] == before;
  return refuse(again ? RefusalCode::repeated_index : RefusalCode::unsorted_index,
                fmt::format("index {} behind {}", indices[j], before));
}

}  // namespace gleaner::codec
