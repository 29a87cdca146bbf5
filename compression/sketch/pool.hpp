#pragma once
// Pooling: blocks of `window` neighbours stand for their mean, or for their largest entry. The mean needs no indices
// and is a projection: what it leaves behind has a mean of 0 in every block, so that the same blocks would never send
// it. The blocks are therefore shifted from round to round, by a number that both ends draw from the run's seed. Pure
// functions; sums in ascending order in double, so that they repeat to the bit.

#include <cstdint>
#include <span>
#include <vector>

#include "compression/payload.hpp"

namespace gleaner {

// Block b has the entries i with (i + shift) / window == b; the first and the last may have fewer than window.
struct PoolBlocks {
  std::uint32_t dimension = 0;
  std::uint32_t window = 1;  // at least 1
  std::uint32_t shift = 0;   // below window

  std::uint32_t count() const;
};

// The shift of a round: uniform below window.
std::uint32_t pool_shift(std::uint64_t seed, std::uint64_t round, std::uint32_t window);

// The mean of every block, rounded to f32. values has dimension entries, means count() (GLEANER_CHECK), here and below.
void pool_means(const PoolBlocks& blocks, std::span<const float> values, std::span<float> means);

// Every entry gets its block's mean: pool_means of the outcome gives the same means again.
void spread_means(const PoolBlocks& blocks, std::span<const float> means, std::span<float> values);

// The entry of the largest magnitude of every block, ties to the lower index; blocks of zeros send none. This is a
// top-1 a block, and an index costs no more than log2 window bits.
SparseVector pool_largest(const PoolBlocks& blocks, std::span<const float> values);

}  // namespace gleaner
