#pragma once
// What the training kernels share: which entries of which slot a block takes.

#include "kernels/cuda/block.cuh"
#include "training/cuda/launches.hpp"

namespace gleaner::cuda::GLEANER_EXECUTION {

template <class T>
GLEANER_DEVICE T* at(const Strided<T>& values, std::uint32_t slot) {
  return values.first + values.stride * slot;
}

GLEANER_DEVICE bool is_finite(double x) { return x - x == 0.0; }

// That a slot works on in this step.
GLEANER_DEVICE std::uint32_t rows_of(const Wave& wave, std::uint32_t slot) {
  return wave.whole != 0 ? wave.rows : wave.now[slot].rows;
}

// visit(slot, i) for every i below `entries` of every slot. Which thread it is depends on nothing but the grid.
template <class Visit>
GLEANER_DEVICE void for_entries(const Wave& wave, std::uint32_t entries, Visit visit) {
  const std::uint32_t spans = (entries + kSpan - 1) / kSpan;
  for (std::uint32_t unit = block_index(); unit < wave.devices * spans; unit += block_count()) {
    const std::uint32_t slot = unit / spans;
    const std::uint32_t begin = (unit - slot * spans) * kSpan;
    const std::uint32_t end = entries - begin < kSpan ? entries : begin + kSpan;
    for (std::uint32_t i = begin + thread_index(); i < end; i += kThreads) visit(slot, i);
  }
}

// The same for the rows that a slot works on, of `each` entries.
template <class Visit>
GLEANER_DEVICE void for_rows(const Wave& wave, std::uint32_t each, Visit visit) {
  const std::uint32_t spans = (wave.rows * each + kSpan - 1) / kSpan;
  for (std::uint32_t unit = block_index(); unit < wave.devices * spans; unit += block_count()) {
    const std::uint32_t slot = unit / spans;
    const std::uint32_t begin = (unit - slot * spans) * kSpan;
    const std::uint32_t entries = rows_of(wave, slot) * each;
    const std::uint32_t end = entries < begin + kSpan ? entries : begin + kSpan;
    for (std::uint32_t i = begin + thread_index(); i < end; i += kThreads) visit(slot, i);
  }
}

}  // namespace gleaner::cuda::GLEANER_EXECUTION
