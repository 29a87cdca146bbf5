#include "compression/sketch/pool.hpp"

#include <algorithm>
#include <cmath>

#include "common/check.hpp"
#include "common/hash.hpp"

namespace gleaner {
namespace {

void check_blocks(const PoolBlocks& blocks, std::size_t values) {
  GLEANER_CHECK(blocks.window >= 1 && blocks.shift < blocks.window && values == blocks.dimension);
}

// Calls each(block, begin, end) for every block in order.
template <class Each>
void for_each_block(const PoolBlocks& blocks, Each each) {
  std::uint64_t begin = 0;
  for (std::uint32_t block = 0; block < blocks.count(); ++block) {
    const std::uint64_t end =
        std::min<std::uint64_t>(blocks.dimension, std::uint64_t{blocks.window} * (block + 1U) - blocks.shift);
    each(block, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end));
    begin = end;
  }
}

}  // namespace

std::uint32_t PoolBlocks::count() const {
  if (dimension == 0) return 0;
  return static_cast<std::uint32_t>((std::uint64_t{dimension} + shift + window - 1) / window);
}

std::uint32_t pool_shift(std::uint64_t seed, std::uint64_t round, std::uint32_t window) {
  GLEANER_CHECK(window >= 1);
  return static_cast<std::uint32_t>((mix64(mix64(seed) + round) >> 32) * window >> 32);
}

void pool_means(const PoolBlocks& blocks, std::span<const float> values, std::span<float> means) {
  check_blocks(blocks, values.size());
  GLEANER_CHECK(means.size() == blocks.count());
  for_each_block(blocks, [&](std::uint32_t block, std::uint32_t begin, std::uint32_t end) {
    double sum = 0.0;
    for (std::uint32_t i = begin; i < end; ++i) sum += double{values[i]};
    means[block] = static_cast<float>(sum / (end - begin));
  });
}

void spread_means(const PoolBlocks& blocks, std::span<const float> means, std::span<float> values) {
  check_blocks(blocks, values.size());
  GLEANER_CHECK(means.size() == blocks.count());
  for_each_block(blocks, [&](std::uint32_t block, std::uint32_t begin, std::uint32_t end) {
    std::ranges::fill(values.subspan(begin, end - begin), means[block]);
  });
}

SparseVector pool_largest(const PoolBlocks& blocks, std::span<const float> values) {
  check_blocks(blocks, values.size());
  SparseVector largest{.dimension = blocks.dimension};
  for_each_block(blocks, [&](std::uint32_t, std::uint32_t begin, std::uint32_t end) {
    std::uint32_t best = begin;
    for (std::uint32_t i = begin + 1; i < end; ++i) {
      if (std::fabs(values[i]) > std::fabs(values[best])) best = i;
    }
    if (values[best] == 0.0F) return;
    largest.indices.push_back(best);
    largest.values.push_back(values[best]);
  });
  return largest;
}

}  // namespace gleaner
