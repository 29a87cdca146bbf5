#pragma once
// Products of many slots in one launch, where there is no cuBLAS. Every entry is summed in one order by one thread,
// over what the slot has, so that neither the wave nor the room in a slot changes a bit.

#include "training/cuda/slots.cuh"

namespace gleaner::cuda::GLEANER_EXECUTION {

constexpr std::uint32_t kTileThreads = 16;  // a side: 16 x 16 threads
constexpr std::uint32_t kThreadRows = kTileRows / kTileThreads;
constexpr std::uint32_t kThreadColumns = kTileColumns / kTileThreads;
static_assert(kTileThreads * kTileThreads == kThreads);

// How an operand lies: from entry to entry of its own dimension (rows of the left, columns of the right), and along the
// inner one.
struct Operand {
  const float* values;
  std::uint32_t own_step;
  std::uint32_t inner_step;
  std::uint32_t own;    // entries from the tile's first on
  std::uint32_t inner;  // entries in all
};

// tile[inner][own]: entries outside are zeros. Neighbours in a warp read neighbours in memory.
template <std::uint32_t kOwn>
GLEANER_DEVICE void load_tile(const Operand& operand, std::uint32_t first_inner, float* tile) {
  for (std::uint32_t t = thread_index(); t < kOwn * kTileInner; t += kThreads) {
    const bool along = operand.inner_step == 1;
    const std::uint32_t own = along ? t / kTileInner : t % kOwn;
    const std::uint32_t inner = along ? t % kTileInner : t / kOwn;
    float value = 0.0F;
    if (own < operand.own && first_inner + inner < operand.inner) {
      value =
          operand
              .values[std::uint64_t{own} * operand.own_step + std::uint64_t{first_inner + inner} * operand.inner_step];
    }
    tile[inner * (kOwn + 1) + own] = value;
  }
}

GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 2) multiply(Wave wave, Product product) {
  GLEANER_SHARED(float, left, kTileInner*(kTileRows + 1));
  GLEANER_SHARED(float, right, kTileInner*(kTileColumns + 1));
  const std::uint32_t tiles_down = (product.rows + kTileRows - 1) / kTileRows;
  const std::uint32_t tiles_across = (product.columns + kTileColumns - 1) / kTileColumns;
  const std::uint32_t tiles = tiles_down * tiles_across;
  const std::uint32_t down = thread_index() / kTileThreads;
  const std::uint32_t across = thread_index() % kTileThreads;
  for (std::uint32_t unit = block_index(); unit < wave.devices * tiles; unit += block_count()) {
    const std::uint32_t slot = unit / tiles;
    const std::uint32_t tile = unit - slot * tiles;
    const std::uint32_t counted = rows_of(wave, slot) * product.of_a_row;
    const std::uint32_t rows = product.counts_inner != 0 ? product.rows : counted;
    const std::uint32_t inner = product.counts_inner != 0 ? counted : product.inner;
    const std::uint32_t first_row = tile / tiles_across * kTileRows;
    const std::uint32_t first_column = tile % tiles_across * kTileColumns;
    if (counted == 0 || first_row >= rows) continue;

    // As stored: the left one is rows x inner, or inner x rows where it is transposed; the right one inner x columns.
    Operand of_left = {at(product.left.values, slot), product.inner, 1, rows - first_row, inner};
    if (product.left.transposed != 0) {
      of_left.own_step = 1;
      of_left.inner_step = product.rows;
    }
    of_left.values += std::uint64_t{first_row} * of_left.own_step;
    Operand of_right = {at(product.right.values, slot), 1, product.columns, product.columns - first_column, inner};
    if (product.right.transposed != 0) {
      of_right.own_step = product.inner;
      of_right.inner_step = 1;
    }
    of_right.values += std::uint64_t{first_column} * of_right.own_step;

    float sums[kThreadRows][kThreadColumns] = {};
    for (std::uint32_t first = 0; first < inner; first += kTileInner) {
      sync_block();
      load_tile<kTileRows>(of_left, first, left);
      load_tile<kTileColumns>(of_right, first, right);
      sync_block();
      const std::uint32_t steps = inner - first < kTileInner ? inner - first : kTileInner;
      for (std::uint32_t k = 0; k < steps; ++k) {
        GLEANER_UNROLL
        for (std::uint32_t i = 0; i < kThreadRows; ++i) {
          const float value = left[k * (kTileRows + 1) + down + i * kTileThreads];
          GLEANER_UNROLL
          for (std::uint32_t j = 0; j < kThreadColumns; ++j) {
            sums[i][j] += value * right[k * (kTileColumns + 1) + across + j * kTileThreads];
          }
        }
      }
    }
    float* const result = at(product.result, slot);
    GLEANER_UNROLL
    for (std::uint32_t i = 0; i < kThreadRows; ++i) {
      const std::uint32_t row = first_row + down + i * kTileThreads;
      GLEANER_UNROLL
      for (std::uint32_t j = 0; j < kThreadColumns; ++j) {
        const std::uint32_t column = first_column + across + j * kTileThreads;
        if (row >= rows || column >= product.columns) continue;
        float& entry = result[std::uint64_t{row} * product.columns + column];
        entry = (product.keep == 0.0F ? 0.0F : product.keep * entry) + product.scale * sums[i][j];
      }
    }
  }
}

}  // namespace gleaner::cuda::GLEANER_EXECUTION
