#pragma once
// Arithmetic on the residual's grid: integers within ±kResidualMax, where cuts are counted instead of wrapping round.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "aggregation/server_model.hpp"

namespace gleaner {

inline constexpr double kResidualScale = 0x1p40;
static_assert(kResidualExponent == 40);

inline std::int64_t cut(std::int64_t value, std::uint64_t& saturated) {
  if (value >= -kResidualMax && value <= kResidualMax) return value;
  ++saturated;
  return value < 0 ? -kResidualMax : kResidualMax;
}

// Rounds half to even; value is finite.
inline std::int64_t to_residual_grid(double value, std::uint64_t& saturated) {
  const double scaled = value * kResidualScale;  // exact, or infinite
  if (scaled >= 0x1p62 || scaled <= -0x1p62) {
    if (scaled > 0x1p62 || scaled < -0x1p62) ++saturated;
    return scaled < 0.0 ? -kResidualMax : kResidualMax;
  }
  return std::llrint(scaled);
}

// a and b within ±kResidualMax; only 2^62 + 2^62 does not fit into 64 bits.
inline std::int64_t add_cut(std::int64_t a, std::int64_t b, std::uint64_t& saturated) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    ++saturated;
    return kResidualMax;
  }
  return cut(sum, saturated);
}

// value / 2^shift, rounded half to even; shift >= 0.
inline std::int64_t shift_right_to_even(std::int64_t value, int shift) {
  if (shift == 0) return value;
  if (shift >= 64) return 0;
  if (shift == 63) return value < -(std::int64_t{1} << 62) ? -1 : (value > (std::int64_t{1} << 62) ? 1 : 0);
  const std::int64_t floor = value >> shift;
  const std::int64_t rest = value - floor * (std::int64_t{1} << shift);  // in [0, 2^shift)
  const std::int64_t half = std::int64_t{1} << (shift - 1);
  const bool up = rest > half || (rest == half && (floor & 1) != 0);
  return floor + (up ? 1 : 0);
}

}  // namespace gleaner
