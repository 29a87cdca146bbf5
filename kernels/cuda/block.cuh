#pragma once
// What the kernels share: who does which tile, histograms in shared memory, sums over a block.

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/execution.hpp"
#include "kernels/cuda/launches.hpp"

namespace gleaner::cuda::GLEANER_EXECUTION {

constexpr std::uint32_t kLanes = 32;
constexpr std::uint32_t kWarps = kThreads / kLanes;

GLEANER_DEVICE std::uint32_t lane_index() { return thread_index() % kLanes; }
GLEANER_DEVICE std::uint32_t warp_index() { return thread_index() / kLanes; }
GLEANER_DEVICE std::uint32_t lanes_below() { return (1U << lane_index()) - 1U; }

// A block's share of the tiles, in one piece: so it seldom meets a new row.
struct TileRange {
  std::uint32_t begin;
  std::uint32_t end;
};
GLEANER_DEVICE TileRange tiles_of_block(std::uint32_t tiles) {
  const std::uint64_t each = (std::uint64_t{tiles} + block_count() - 1) / block_count();
  const std::uint64_t begin = each * block_index();
  const std::uint64_t end = begin + each;
  return {static_cast<std::uint32_t>(begin < tiles ? begin : tiles),
          static_cast<std::uint32_t>(end < tiles ? end : tiles)};
}

// Where a tile lies in the buffers, and in its row.
struct Tile {
  std::uint32_t row;
  std::uint32_t offset;  // in the row
  std::uint32_t size;
  std::uint64_t first;  // in the buffers
};
GLEANER_DEVICE Tile tile_at(const RowTable& rows, std::uint32_t tile) {
  const std::uint32_t row = rows.tile_row[tile];
  const std::uint32_t offset = (tile - rows.first_tile[row]) * kTile;
  const std::uint32_t left = rows.size[row] - offset;
  return {row, offset, left < kTile ? left : kTile, rows.first[row] + offset};
}

// All lanes of the warp come here. A warp of one bin adds once: else equal entries would queue at one address.
GLEANER_DEVICE void count_in_bins(std::uint32_t* bins, std::uint32_t bin, bool counts) {
  const std::uint32_t leader = shuffle(kWholeWarp, bin, 0);
  if (all(kWholeWarp, counts && bin == leader)) {
    if (lane_index() == 0) atomic_add(&bins[bin], kLanes);
  } else if (counts) {
    atomic_add(&bins[bin], 1U);
  }
}

GLEANER_DEVICE void clear_bins(std::uint32_t* bins, std::uint32_t count) {
  for (std::uint32_t i = thread_index(); i < count; i += kThreads) bins[i] = 0;
}

// Every thread empties its own bins, so that no barrier is needed in between.
GLEANER_DEVICE void flush_bins(std::uint32_t* bins, std::uint32_t count, std::uint32_t* histogram) {
  for (std::uint32_t i = thread_index(); i < count; i += kThreads) {
    if (bins[i] != 0) atomic_add(&histogram[i], bins[i]);
    bins[i] = 0;
  }
}

struct Sums {
  std::uint32_t before;  // of the threads below
  std::uint32_t total;
};

// warp_sums has kWarps entries of shared memory; a barrier must lie between two calls with the same ones.
GLEANER_DEVICE Sums sum_over_block(std::uint32_t value, std::uint32_t* warp_sums) {
  std::uint32_t sum = value;
  for (std::uint32_t by = 1; by < kLanes; by *= 2) {
    const std::uint32_t lower = shuffle_up(kWholeWarp, sum, by);
    if (lane_index() >= by) sum += lower;
  }
  if (lane_index() == kLanes - 1) warp_sums[warp_index()] = sum;
  sync_block();
  Sums sums = {sum - value, 0};
  for (std::uint32_t warp = 0; warp < kWarps; ++warp) {
    if (warp < warp_index()) sums.before += warp_sums[warp];
    sums.total += warp_sums[warp];
  }
  return sums;
}

// The last of ascending begins that is not above position; begins[0] is.
template <class Position>
GLEANER_DEVICE std::uint32_t part_of(const Position* begins, std::uint32_t parts, Position position) {
  std::uint32_t low = 0;
  std::uint32_t high = parts;
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (begins[middle] <= position) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

GLEANER_DEVICE std::uint64_t first_entry() { return std::uint64_t{block_index()} * kThreads + thread_index(); }
GLEANER_DEVICE std::uint64_t entry_step() { return std::uint64_t{block_count()} * kThreads; }

}  // namespace gleaner::cuda::GLEANER_EXECUTION
