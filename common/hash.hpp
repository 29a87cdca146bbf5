#pragma once
// Hashes with a fixed meaning: they are stored and sent, so they never change.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "common/ids.hpp"

namespace gleaner {

// The finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection of 64 bits with full avalanche.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// One coordinate's share of the model hash: hash(model) = sum over i of coordinate_hash(i, w_i) mod 2^64, so that it
// can be made in any order and brought up to date under a patch.
constexpr std::uint64_t coordinate_hash(std::uint32_t index, float value) {
  return mix64((std::uint64_t{index} << 32) | std::bit_cast<std::uint32_t>(value));
}

// XXH3-64 of the bytes, seed 0.
Digest digest_of(std::span<const std::byte> bytes);
std::uint64_t hash_of(std::string_view text);

}  // namespace gleaner
