#pragma once
// The arithmetic that every backend shares, so that all return equal bits. C++20 at most: nvcc compiles it too.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gleaner {

// The bits of |x|: ordered like the magnitudes, and -0 is 0.
constexpr std::uint32_t magnitude_bits(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7fffffffU; }
constexpr std::uint64_t magnitude_bits(std::int64_t x) {
  const auto bits = static_cast<std::uint64_t>(x);
  return x < 0 ? 0 - bits : bits;
}

constexpr std::uint32_t kInfinityBits = 0x7f800000U;  // magnitudes from here on are not finite

// Without a branch an entry, so that it is as fast as reading.
inline bool all_finite(std::span<const float> values) {
  std::uint32_t wild = 0;
  for (const float value : values) wild |= magnitude_bits(value) >= kInfinityBits ? 1U : 0U;
  return wild == 0;
}

// The order in which a squared norm is summed, in double (each square is exact): the vector is cut into blocks; in a
// block, entry i goes to lane i mod 16 in ascending order; lanes are folded j + (j + 8), then + 4, + 2, + 1; the block
// sums are added in order.
constexpr std::size_t kNormBlock = 4096;
constexpr std::size_t kNormLanes = 16;

constexpr double fold_norm_lanes(double (&lanes)[kNormLanes]) {
  for (std::size_t half = kNormLanes / 2; half > 0; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  }
  return lanes[0];
}

// Grid exponents that keep 2^exponent a normal double, so that multiplying by it is what ldexp does.
constexpr int kGridExponentMax = 960;

constexpr double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + exponent) << 52);
}

}  // namespace gleaner
