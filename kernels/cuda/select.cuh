#pragma once
// The rest of a selection, after the first digits were counted (form.cuh). Candidates, which are the entries from the
// threshold's first digit on, are read once more and kept aside; digit by digit of the threshold is found among them;
// then they are counted, placed and written in order. A row that keeps too many (many equal entries, or a large k) is
// read again instead. No block waits for another, and no order of the blocks shows in the result.

#include "kernels/cuda/digits.cuh"

namespace gleaner::cuda::GLEANER_EXECUTION {

// One block a row finds the digit that the threshold has, and leaves the histogram empty for the next round.
template <class Key>
GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4) choose(RowTable rows, SelectionMemory memory, std::uint32_t round) {
  GLEANER_SHARED(std::uint32_t, warp_sums, kWarps);
  const std::uint32_t row = block_index();
  const RowState state = memory.states[row];
  std::uint32_t wanted = state.rank;
  if (round == 0) wanted = memory.non_finite[row] == kNoIndex ? rows.k[row] : 0;
  if (round > 0 && (state.mode == RowMode::nothing || state.width == 0)) return;

  const std::uint32_t bins = round == 0 ? kFirstBins : kBins;
  const std::uint32_t each = bins / kThreads;
  std::uint32_t* const mine =
      memory.histograms + std::uint64_t{row} * kFirstBins + (bins - each * (thread_index() + 1));
  std::uint32_t sum = 0;
  for (std::uint32_t i = 0; i < each; ++i) sum += mine[i];
  const Sums sums = sum_over_block(sum, warp_sums);

  const bool here = sums.before < wanted && wanted <= sums.before + sum;
  if (here) {
    std::uint32_t before = sums.before;
    std::uint32_t bin = each - 1;
    while (before + mine[bin] < wanted) before += mine[bin--];
    const std::uint32_t digit = bins - each * (thread_index() + 1) + bin;
    RowState next = state;
    next.above = state.above + before;
    next.rank = wanted - before;
    if (round == 0) {
      next.low = Key::low(digit);
      next.width = Key::width(digit);
      const std::uint64_t share = rows.first_kept[row + 1] - rows.first_kept[row];
      next.mode = std::uint64_t{before} + mine[bin] <= share ? RowMode::candidates : RowMode::whole;
      atomic_add(&memory.modes[next.mode == RowMode::whole ? 1 : 0], 1U);
    } else {
      const Interval<Key> interval(state);
      next.low = interval.low + (typename Key::Bits{digit} << interval.shift);
      next.width = interval.shift;
    }
    memory.states[row] = next;
  }
  for (std::uint32_t i = 0; i < each; ++i) mine[i] = 0;
}

// A warp keeps its eighth of the tile in registers between counting and writing.
template <class Key>
GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4)
    keep(RowTable rows, const typename Key::Value* GLEANER_RESTRICT x, SelectionMemory memory) {
  GLEANER_SHARED(std::uint32_t, warp_counts, kWarps);
  GLEANER_SHARED(std::uint64_t, place, 1);
  constexpr std::uint32_t kSteps = kTile / kThreads;
  if (memory.modes[0] == 0) return;
  auto* const kept_values = static_cast<typename Key::Value*>(memory.kept_values);
  for (std::uint32_t number = block_index(); number < rows.tiles; number += block_count()) {
    const Tile tile = tile_at(rows, number);
    const RowState* const state = &memory.states[tile.row];
    if (state->mode != RowMode::candidates) continue;
    const auto low = static_cast<typename Key::Bits>(state->low);
    const std::uint32_t begin = warp_index() * kSteps * kLanes + lane_index();
    typename Key::Value values[kSteps];
    std::uint32_t votes[kSteps];
    std::uint32_t count = 0;
    GLEANER_UNROLL
    for (std::uint32_t j = 0; j < kSteps; ++j) {
      const std::uint32_t i = begin + j * kLanes;
      values[j] = i < tile.size ? x[tile.first + i] : typename Key::Value{0};
    }
    GLEANER_UNROLL
    for (std::uint32_t j = 0; j < kSteps; ++j) {
      votes[j] = ballot(kWholeWarp, begin + j * kLanes < tile.size && magnitude_bits(values[j]) >= low);
      count += count_bits(votes[j]);
    }
    if (lane_index() == 0) warp_counts[warp_index()] = count;
    sync_block();
    if (thread_index() == 0) {
      std::uint32_t total = 0;
      for (std::uint32_t warp = 0; warp < kWarps; ++warp) total += warp_counts[warp];
      place[0] = rows.first_kept[tile.row] + atomic_add(&memory.states[tile.row].kept, total);
      memory.tile_first[number] = place[0];
      memory.tile_kept[number] = total;
    }
    sync_block();
    std::uint64_t at = place[0];
    for (std::uint32_t warp = 0; warp < warp_index(); ++warp) at += warp_counts[warp];
    GLEANER_UNROLL
    for (std::uint32_t j = 0; j < kSteps; ++j) {
      if ((votes[j] >> lane_index() & 1U) != 0) {
        const std::uint64_t to = at + count_bits(votes[j] & lanes_below());
        memory.kept_indices[to] = tile.offset + begin + j * kLanes;
        kept_values[to] = values[j];
      }
      at += count_bits(votes[j]);
    }
    sync_block();
  }
}

// A tile's entries as the later kernels see them: its candidates, or all of it.
template <class Key>
struct TileSource {
  RowState state;
  std::uint32_t size = 0;
  std::uint32_t row;
  std::uint32_t offset;
  const std::uint32_t* indices = nullptr;
  const typename Key::Value* values;

  GLEANER_DEVICE TileSource(const RowTable& rows, const typename Key::Value* x, const SelectionMemory& memory,
                            std::uint32_t number) {
    const Tile tile = tile_at(rows, number);
    row = tile.row;
    offset = tile.offset;
    state = memory.states[row];
    values = x + tile.first;
    if (state.mode == RowMode::whole) size = tile.size;
    if (state.mode == RowMode::candidates) {
      size = memory.tile_kept[number];
      indices = memory.kept_indices + memory.tile_first[number];
      values = static_cast<const typename Key::Value*>(memory.kept_values) + memory.tile_first[number];
    }
  }
  GLEANER_DEVICE std::uint32_t index(std::uint32_t i) const { return indices != nullptr ? indices[i] : offset + i; }
  // How many of the threshold's equals are selected.
  GLEANER_DEVICE std::uint32_t ties() const { return Key::kSkipsZero && state.low == 0 ? 0 : state.rank; }
};

GLEANER_DEVICE std::uint32_t first_tile_of_warp() { return block_index() * kWarps + warp_index(); }
GLEANER_DEVICE std::uint32_t warp_step() { return block_count() * kWarps; }

// Candidates are few: a warp a tile, and equals of one warp add once.
template <class Key>
GLEANER_DEVICE void refine_candidates(const RowTable& rows, const typename Key::Value* x,
                                      const SelectionMemory& memory) {
  for (std::uint32_t number = first_tile_of_warp(); number < rows.tiles; number += warp_step()) {
    const TileSource<Key> source(rows, x, memory, number);
    if (source.state.mode != RowMode::candidates || source.state.width == 0) continue;
    const Interval<Key> interval(source.state);
    std::uint32_t* const histogram = memory.histograms + std::uint64_t{source.row} * kFirstBins;
    for (std::uint32_t begin = 0; begin < source.size; begin += kLanes) {
      const std::uint32_t i = begin + lane_index();
      const auto magnitude = i < source.size ? magnitude_bits(source.values[i]) : typename Key::Bits{0};
      const bool counts = i < source.size && interval.holds(magnitude);
      const unsigned counting = ballot(kWholeWarp, counts);
      if (!counts) continue;
      const std::uint32_t digit = interval.digit(magnitude);
      const unsigned equals = match(counting, digit);
      if (lowest_bit(equals) == lane_index()) atomic_add(&histogram[digit], count_bits(equals));
    }
    sync_warp();
  }
}

// Rows that are read whole: a block a piece, with its bins in shared memory.
template <class Key>
GLEANER_DEVICE void refine_whole(const RowTable& rows, const typename Key::Value* x, const SelectionMemory& memory,
                                 std::uint32_t* bins) {
  const TileRange range = tiles_of_block(rows.tiles);
  clear_bins(bins, kBins);
  sync_block();
  for (std::uint32_t number = range.begin; number < range.end; ++number) {
    const TileSource<Key> source(rows, x, memory, number);
    const bool counts = source.state.mode == RowMode::whole && source.state.width > 0;
    const Interval<Key> interval(source.state);
    for (std::uint32_t begin = 0; counts && begin < source.size; begin += kThreads) {
      const std::uint32_t i = begin + thread_index();
      const auto magnitude = i < source.size ? magnitude_bits(source.values[i]) : typename Key::Bits{0};
      const bool inside = i < source.size && interval.holds(magnitude);
      count_in_bins(bins, inside ? interval.digit(magnitude) : 0, inside);
    }
    const bool last = number + 1 == range.end || rows.tile_row[number + 1] != source.row;
    if (!last) continue;
    sync_block();
    flush_bins(bins, kBins, memory.histograms + std::uint64_t{source.row} * kFirstBins);
    sync_block();
  }
}

template <class Key>
GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4)
    refine(RowTable rows, const typename Key::Value* GLEANER_RESTRICT x, SelectionMemory memory) {
  GLEANER_SHARED(std::uint32_t, bins, kBins);
  if (memory.modes[0] > 0) refine_candidates<Key>(rows, x, memory);
  if (memory.modes[1] > 0) refine_whole<Key>(rows, x, memory, bins);
}

template <class Key>
GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4)
    count(RowTable rows, const typename Key::Value* GLEANER_RESTRICT x, SelectionMemory memory) {
  for (std::uint32_t number = first_tile_of_warp(); number < rows.tiles; number += warp_step()) {
    const TileSource<Key> source(rows, x, memory, number);
    const auto threshold = static_cast<typename Key::Bits>(source.state.low);
    std::uint32_t above = 0;
    std::uint32_t equal = 0;
    for (std::uint32_t i = lane_index(); i < source.size; i += kLanes) {
      const auto magnitude = magnitude_bits(source.values[i]);
      above += magnitude > threshold ? 1 : 0;
      equal += magnitude == threshold ? 1 : 0;
    }
    sync_warp();
    above = warp_sum(kWholeWarp, above);
    equal = warp_sum(kWholeWarp, equal);
    if (lane_index() == 0) memory.tile_counts[number] = {above, equal};
  }
}

// One block a row turns its tiles' counts into the counts before each tile.
template <class Key>
GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4) place(RowTable rows, SelectionMemory memory, RowReport* reports) {
  GLEANER_SHARED(std::uint32_t, above_sums, kWarps);
  GLEANER_SHARED(std::uint32_t, equal_sums, kWarps);
  const std::uint32_t row = block_index();
  const std::uint32_t first = rows.first_tile[row];
  const std::uint32_t tiles = rows.first_tile[row + 1] - first;
  const std::uint32_t each = (tiles + kThreads - 1) / kThreads;
  const std::uint32_t begin = each * thread_index() < tiles ? each * thread_index() : tiles;
  const std::uint32_t end = begin + each < tiles ? begin + each : tiles;
  TileCount mine;
  for (std::uint32_t i = begin; i < end; ++i) {
    mine.above += memory.tile_counts[first + i].above;
    mine.equal += memory.tile_counts[first + i].equal;
  }
  const Sums above = sum_over_block(mine.above, above_sums);
  const Sums equal = sum_over_block(mine.equal, equal_sums);
  TileCount before = {above.before, equal.before};
  for (std::uint32_t i = begin; i < end; ++i) {
    const TileCount tile = memory.tile_counts[first + i];
    memory.tile_counts[first + i] = before;
    before.above += tile.above;
    before.equal += tile.equal;
  }
  if (thread_index() == 0) {
    const RowState state = memory.states[row];
    const bool some = state.mode != RowMode::nothing;
    const std::uint32_t ties = Key::kSkipsZero && state.low == 0 ? 0 : state.rank;
    reports[row].selected = some ? state.above + ties : 0;
    reports[row].non_finite = memory.non_finite[row];
    reports[row].threshold_bits = some ? static_cast<std::uint32_t>(state.low) : 0;
  }
}

// values may be null: then only indices are written.
template <class Key>
GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4)
    write(RowTable rows, const typename Key::Value* GLEANER_RESTRICT x, SelectionMemory memory, std::uint32_t* indices,
          typename Key::Value* values) {
  for (std::uint32_t number = first_tile_of_warp(); number < rows.tiles; number += warp_step()) {
    const TileSource<Key> source(rows, x, memory, number);
    if (source.state.mode == RowMode::nothing) continue;
    const auto threshold = static_cast<typename Key::Bits>(source.state.low);
    const std::uint32_t ties = source.ties();
    const std::uint64_t to = rows.first_output[source.row];
    TileCount before = memory.tile_counts[number];
    for (std::uint32_t begin = 0; begin < source.size; begin += kLanes) {
      const std::uint32_t i = begin + lane_index();
      const auto value = i < source.size ? source.values[i] : typename Key::Value{0};
      const auto magnitude = magnitude_bits(value);
      const bool above = i < source.size && magnitude > threshold;
      const bool equal = i < source.size && magnitude == threshold;
      const unsigned above_votes = ballot(kWholeWarp, above);
      const unsigned equal_votes = ballot(kWholeWarp, equal);
      const std::uint32_t equal_before = before.equal + count_bits(equal_votes & lanes_below());
      if (above || (equal && equal_before < ties)) {
        const std::uint64_t at =
            to + before.above + count_bits(above_votes & lanes_below()) + (equal_before < ties ? equal_before : ties);
        indices[at] = source.index(i);
        if (values != nullptr) values[at] = value;
      }
      before.above += count_bits(above_votes);
      before.equal += count_bits(equal_votes);
    }
  }
}

}  // namespace gleaner::cuda::GLEANER_EXECUTION
