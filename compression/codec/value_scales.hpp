#pragma once
// What both ends of a value format share: its blocks, its scales, and the number a code stands for.

#include <array>
#include <bit>
#include <cstdint>

#include "compression/payload.hpp"

namespace gleaner::codec {

// Values are coded in blocks with a scale each: one i8 exponent, then the codes of up to `entries` values in
// `code_bytes` bytes (fewer in the last block). f32 and bf16 have no scale; f16 has one for the whole group.
inline constexpr std::size_t kInt8Block = 128;
inline constexpr std::size_t kInt4Block = 64;
inline constexpr std::size_t kTernaryBlock = 128;
inline constexpr std::size_t kSignBlock = 128;

// Exponents of the scales. At both ends 2^e and 2^-e are normal floats, and a half or a level times 2^e is exact.
struct ExponentRange {
  int least;
  int most;
};
inline constexpr ExponentRange kF16Exponents = {-112, 113};
inline constexpr ExponentRange kInt8Exponents = {-126, 121};
inline constexpr ExponentRange kInt4Exponents = {-126, 125};
inline constexpr ExponentRange kTernaryExponents = {-126, 126};
inline constexpr int kNoScale = -128;  // sign: all values of the block are 0

inline constexpr std::size_t kTritsInByte = 5;
inline constexpr unsigned kTritBytes = 243;  // 3^5: bytes from here on stand for nothing

constexpr float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
}

// |x| <= 2^15: no overflow to handle. Both sides of the choice are computed, so that a loop of it needs no branch.
inline std::uint16_t to_half(float x) {
  const std::uint32_t sign = (std::bit_cast<std::uint32_t>(x) >> 16) & 0x8000U;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) & 0x7fffffffU;
  const std::uint32_t normal = (bits - 0x38000000U + 0xfffU + ((bits >> 13) & 1U)) >> 13;
  // Beside 0.5 a float has 2^-24 as its last place, the step of the halves below 2^-14.
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits) + 0.5F) - std::bit_cast<std::uint32_t>(0.5F);
  return static_cast<std::uint16_t>(sign | (bits >= 0x38800000U ? normal : small));
}

// Infinities and NaNs of the half become those of the float.
inline float from_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t bits = half & 0x7fffU;
  const std::uint32_t finite = (bits << 13) + 0x38000000U;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<int>(bits)) * 0x1p-24F);
  const std::uint32_t infinite = 0x7f800000U | (bits & 0x3ffU) << 13;
  const std::uint32_t magnitude = bits < 0x400U ? subnormal : bits < 0x7c00U ? finite : infinite;
  return std::bit_cast<float>(sign | magnitude);
}

// |x| is at most 2^127: no overflow to handle.
inline std::uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

inline float from_bf16(std::uint16_t code) { return std::bit_cast<float>(std::uint32_t{code} << 16); }

}  // namespace gleaner::codec
