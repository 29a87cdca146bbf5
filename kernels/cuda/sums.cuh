#pragma once
// Sums, moves and hashes. Integer atomics add in any order to the same sum; indices of one call differ, so that no two
// threads meet at one float.

#include "common/hash.hpp"
#include "kernels/arithmetic.hpp"
#include "kernels/cuda/block.cuh"

namespace gleaner::cuda::GLEANER_EXECUTION {

// (value * weight) * scale: two roundings, as llrint(ldexp(value * weight, exponent)) has them.
GLEANER_DEVICE std::int64_t on_grid(float value, double weight, double scale) {
  return round_to_integer(static_cast<double>(value) * weight * scale);
}

// Sums are unsigned inside: they wrap where signed ones would be undefined.
GLEANER_DEVICE void add_to_sum(std::int64_t* sum, std::int64_t value) {
  atomic_add(reinterpret_cast<std::uint64_t*>(sum), static_cast<std::uint64_t>(value));
}

GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4) scatter_add(std::int64_t* sum, UpdateTable table, double scale) {
  for (std::uint64_t entry = first_entry(); entry < table.entries; entry += entry_step()) {
    const std::uint32_t update = part_of(table.first, table.updates, entry);
    if (table.reports != nullptr && entry - table.first[update] >= table.reports[update].selected) continue;
    add_to_sum(&sum[table.indices[entry]], on_grid(table.values[entry], table.weight[update], scale));
  }
}

GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4)
    dense_add(std::int64_t* GLEANER_RESTRICT sum, const float* GLEANER_RESTRICT values, std::uint64_t count,
              double weight, double scale) {
  for (std::uint64_t i = first_entry(); i < count; i += entry_step()) sum[i] += on_grid(values[i], weight, scale);
}

GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4)
    move_selected(float sign, RowTable rows, const RowReport* reports, float* residual, const std::uint32_t* indices,
                  const float* sent) {
  const std::uint64_t outputs = rows.first_output[rows.rows];
  for (std::uint64_t at = first_entry(); at < outputs; at += entry_step()) {
    const std::uint32_t row = part_of(rows.first_output, rows.rows, at);
    if (at - rows.first_output[row] >= reports[row].selected) continue;
    float& entry = residual[rows.first[row] + indices[at]];
    entry = sign < 0.0F ? entry - sent[at] : entry + sent[at];
  }
}

GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4)
    move_out(float sign, float* residual, const std::uint32_t* indices, const float* sent, std::uint64_t count) {
  for (std::uint64_t j = first_entry(); j < count; j += entry_step()) {
    float& entry = residual[indices[j]];
    entry = sign < 0.0F ? entry - sent[j] : entry + sent[j];
  }
}

// All threads of the block come here, once a kernel.
GLEANER_DEVICE void add_to_hash(std::uint64_t mine, std::uint64_t* hash) {
  GLEANER_SHARED(std::uint64_t, warp_hashes, kWarps);
  for (std::uint32_t by = kLanes / 2; by > 0; by /= 2) mine += shuffle_down(kWholeWarp, mine, by);
  if (lane_index() == 0) warp_hashes[warp_index()] = mine;
  sync_block();
  if (thread_index() != 0) return;
  std::uint64_t sum = 0;
  for (std::uint32_t warp = 0; warp < kWarps; ++warp) sum += warp_hashes[warp];
  atomic_add(hash, sum);
}

GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4)
    apply_patch(float* model, const std::uint32_t* indices, const float* u, std::uint64_t count, std::uint64_t* hash) {
  std::uint64_t change = 0;
  for (std::uint64_t j = first_entry(); j < count; j += entry_step()) {
    const std::uint32_t index = indices[j];
    const float before = model[index];
    const float after = before - u[j];
    model[index] = after;
    change += coordinate_hash(index, after) - coordinate_hash(index, before);
  }
  add_to_hash(change, hash);
}

GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4)
    range_hash(const float* GLEANER_RESTRICT range, std::uint32_t first, std::uint64_t count, std::uint64_t* hash) {
  std::uint64_t sum = 0;
  for (std::uint64_t i = first_entry(); i < count; i += entry_step()) {
    sum += coordinate_hash(first + static_cast<std::uint32_t>(i), range[i]);
  }
  add_to_hash(sum, hash);
}

GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4)
    gather(const float* GLEANER_RESTRICT x, const std::uint32_t* GLEANER_RESTRICT indices, std::uint64_t count,
           float* GLEANER_RESTRICT values) {
  for (std::uint64_t j = first_entry(); j < count; j += entry_step()) values[j] = x[indices[j]];
}

}  // namespace gleaner::cuda::GLEANER_EXECUTION
