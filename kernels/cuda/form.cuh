#pragma once
// The first pass of a selection: forms the entries (residual += update), counts their first digits a row, finds the
// first that is not finite, and sums the squares of every tile in the order of kernels/arithmetic.hpp.

#include "kernels/cuda/digits.cuh"

namespace gleaner::cuda::GLEANER_EXECUTION {

static_assert(kTile == kNormBlock && kNormLanes == 16);

constexpr std::uint32_t kBatch = 8;  // loads of a thread that are under way at once

template <Form kForm>
GLEANER_DEVICE float formed(const FormArguments& x, std::uint64_t at) {
  if constexpr (kForm == Form::add) return x.target[at] + x.update[at];
  if constexpr (kForm == Form::subtract) return x.update[at] - x.tracked[at];
  return x.update[at];
}

// Returns the first of this thread's entries that is not finite, as a place in the tile, or kNoIndex.
template <Form kForm>
GLEANER_DEVICE std::uint32_t form_tile(const FormArguments& x, const Tile& tile, float* staged, std::uint32_t* bins) {
  std::uint32_t bad = kNoIndex;
  for (std::uint32_t begin = 0; begin < tile.size; begin += kBatch * kThreads) {
    float values[kBatch];
    GLEANER_UNROLL
    for (std::uint32_t j = 0; j < kBatch; ++j) {
      const std::uint32_t i = begin + j * kThreads + thread_index();
      values[j] = i < tile.size ? formed<kForm>(x, tile.first + i) : 0.0F;
    }
    GLEANER_UNROLL
    for (std::uint32_t j = 0; j < kBatch; ++j) {
      if (begin + j * kThreads >= tile.size) break;
      const std::uint32_t i = begin + j * kThreads + thread_index();
      const bool inside = i < tile.size;
      if (inside) {
        if constexpr (kForm != Form::as_it_is) x.target[tile.first + i] = values[j];
        staged[i] = values[j];
      }
      const std::uint32_t magnitude = magnitude_bits(values[j]);
      if (magnitude >= kInfinityBits && i < bad) bad = i;
      count_in_bins(bins, FloatKey::first_digit(magnitude), inside);
    }
  }
  return bad;
}

// By one warp: its first 16 lanes are the lanes of the sum.
GLEANER_DEVICE double squared_norm_of_tile(const float* staged, std::uint32_t size) {
  double sum = 0.0;
  if (lane_index() < kNormLanes) {
    for (std::uint32_t i = lane_index(); i < size; i += kNormLanes) sum = square_and_add(staged[i], sum);
  }
  sync_warp();
  for (std::uint32_t half = kNormLanes / 2; half > 0; half /= 2) sum += shuffle_down(kWholeWarp, sum, half);
  return sum;
}

template <Form kForm>
GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4) form_and_count(RowTable rows, FormArguments x, SelectionMemory memory) {
  GLEANER_SHARED(std::uint32_t, bins, kFirstBins);
  GLEANER_SHARED(float, staged, kTile);
  const TileRange range = tiles_of_block(rows.tiles);
  if (range.begin == range.end) return;
  clear_bins(bins, kFirstBins);
  sync_block();
  std::uint32_t row = rows.tile_row[range.begin];
  for (std::uint32_t number = range.begin; number < range.end; ++number) {
    const Tile tile = tile_at(rows, number);
    if (tile.row != row) {
      flush_bins(bins, kFirstBins, memory.histograms + std::uint64_t{row} * kFirstBins);
      sync_block();
      row = tile.row;
    }
    std::uint32_t bad = form_tile<kForm>(x, tile, staged, bins);
    bad = warp_min(kWholeWarp, bad);
    if (lane_index() == 0 && bad != kNoIndex) atomic_min(&memory.non_finite[row], tile.offset + bad);
    sync_block();
    // One warp after another, or the same would always come late.
    if (warp_index() == number % kWarps) {
      const double sum = squared_norm_of_tile(staged, tile.size);
      if (lane_index() == 0) memory.tile_norms[number] = sum;
    }
    sync_block();
  }
  flush_bins(bins, kFirstBins, memory.histograms + std::uint64_t{row} * kFirstBins);
}

GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4)
    count_integers(RowTable rows, const std::int64_t* GLEANER_RESTRICT x, SelectionMemory memory) {
  GLEANER_SHARED(std::uint32_t, bins, kFirstBins);
  const TileRange range = tiles_of_block(rows.tiles);
  if (range.begin == range.end) return;
  clear_bins(bins, kFirstBins);
  sync_block();
  std::uint32_t row = rows.tile_row[range.begin];
  for (std::uint32_t number = range.begin; number < range.end; ++number) {
    const Tile tile = tile_at(rows, number);
    if (tile.row != row) {
      sync_block();
      flush_bins(bins, kFirstBins, memory.histograms + std::uint64_t{row} * kFirstBins);
      sync_block();
      row = tile.row;
    }
    GLEANER_UNROLL
    for (std::uint32_t begin = 0; begin < kTile; begin += kThreads) {
      if (begin >= tile.size) break;
      const std::uint32_t i = begin + thread_index();
      const bool inside = i < tile.size;
      const std::uint64_t magnitude = inside ? magnitude_bits(x[tile.first + i]) : 0;
      count_in_bins(bins, IntegerKey::first_digit(magnitude), inside);
    }
  }
  sync_block();
  flush_bins(bins, kFirstBins, memory.histograms + std::uint64_t{row} * kFirstBins);
}

// The sums of a row's tiles in their order: by one warp a row, every lane the same sum.
GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 1) sum_norms(RowTable rows, SelectionMemory memory, RowReport* reports) {
  const std::uint32_t row = block_index() * kWarps + warp_index();
  if (row >= rows.rows) return;
  const std::uint32_t end = rows.first_tile[row + 1];
  double sum = 0.0;
  std::uint32_t tile = rows.first_tile[row] + lane_index();
  double coming = tile < end ? memory.tile_norms[tile] : 0.0;
  for (std::uint32_t begin = rows.first_tile[row]; begin < end; begin += kLanes) {
    const double mine = coming;
    tile += kLanes;
    coming = tile < end ? memory.tile_norms[tile] : 0.0;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      const double next = shuffle(kWholeWarp, mine, lane);
      if (begin + lane < end) sum += next;
    }
  }
  if (lane_index() == 0) reports[row].squared_norm = memory.non_finite[row] == kNoIndex ? sum : 0.0;
}

}  // namespace gleaner::cuda::GLEANER_EXECUTION
