#include "aggregation/grid.hpp"

#include <fmt/format.h>

#include <bit>

#include "common/check.hpp"

namespace gleaner {

float Grid::clip() const {
  GLEANER_CHECK(clip_exponent >= -126 && clip_exponent <= 127);
  return std::bit_cast<float>(static_cast<std::uint32_t>(127 + clip_exponent) << 23);
}

bool is_valid(const Grid& grid) {
  return grid.clip_exponent >= kClipExponentMin && grid.clip_exponent <= 61 && grid.weight_bits >= 0 &&
         grid.weight_bits <= 61 && grid.exponent() >= kGridExponentFloor;
}

Result<Grid> make_grid(int clip_exponent, std::uint64_t weight_sum_max) {
  Grid grid{.clip_exponent = clip_exponent, .weight_bits = 0};
  if (weight_sum_max > 1) grid.weight_bits = static_cast<int>(std::bit_width(weight_sum_max - 1));
  if (clip_exponent < kClipExponentMin) {
    return fail(ErrorCode::bad_input,
                fmt::format("clip_exponent is {}: it must be at least {}", clip_exponent, kClipExponentMin));
  }
  if (!is_valid(grid)) {
    return fail(ErrorCode::bad_input,
                fmt::format("a clip of 2^{} and {} samples in a round do not fit into 64-bit sums together: lower "
                            "clip_exponent to at most {} or take fewer samples",
                            clip_exponent, weight_sum_max, 61 - kGridExponentFloor - grid.weight_bits));
  }
  return grid;
}

}  // namespace gleaner
