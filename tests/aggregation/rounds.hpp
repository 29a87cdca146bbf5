#pragma once
// Rounds for aggregation tests: seeded updates, models and backends.

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <set>
#include <vector>

#include "aggregation/accumulator.hpp"
#include "aggregation/server_model.hpp"
#include "common/random.hpp"

namespace gleaner {

inline const KernelTable& backend(Backend which = Backend::cpu) {
  const auto table = kernels_for(which);
  EXPECT_TRUE(table.has_value());
  return **table;
}

// 24 random bits scaled by 2^-scale: never zero, exact on every machine.
inline float random_value(Random& random, int scale) {
  const auto mantissa = static_cast<std::int32_t>(random.bits32() >> 8) - (1 << 23);
  const float power = std::bit_cast<float>(static_cast<std::uint32_t>(127 - scale) << 23);
  return static_cast<float>(mantissa == 0 ? 1 : mantissa) * 0x1p-23F * power;
}

inline SparseVector random_update(Random& random, std::uint32_t dimension, std::uint32_t entries) {
  std::set<std::uint32_t> indices;
  while (indices.size() < entries) indices.insert(random.below(dimension));
  SparseVector update{.dimension = dimension, .indices = {indices.begin(), indices.end()}, .values = {}};
  for (std::size_t i = 0; i < update.indices.size(); ++i) {
    update.values.push_back(random_value(random, static_cast<int>(random.below(12)) - 2));
  }
  return update;
}

inline std::vector<float> random_model(std::uint64_t seed, std::uint32_t dimension) {
  Random random(seed, Purpose::test, 77);
  std::vector<float> model(dimension);
  for (float& w : model) w = random_value(random, static_cast<int>(random.below(6)));
  return model;
}

inline Grid grid_for(std::uint64_t weight, int clip_exponent = 10) {
  auto grid = make_grid(clip_exponent, weight);
  EXPECT_TRUE(grid.has_value());
  return *grid;
}

// Folds a round of seeded updates; the weights add up to at most 2^20.
inline void fold_round(Accumulator& accumulator, std::uint64_t seed, std::uint32_t round, std::uint32_t devices,
                       std::uint32_t entries) {
  accumulator.reset(grid_for(1U << 20));
  Random random(seed, Purpose::test, round);
  const auto dimension = static_cast<std::uint32_t>(accumulator.sum().size());
  for (std::uint32_t device = 0; device < devices; ++device) {
    const SparseVector update = random_update(random, dimension, entries);
    accumulator.fold(update, 1 + random.below((1U << 20) / devices));
  }
}

inline ServerModel make_server(std::vector<float> initial, const ServerStepOptions& options,
                               Backend which = Backend::cpu) {
  const auto dimension = static_cast<std::uint32_t>(initial.size());
  Grouping tensors{{dimension}};
  if (dimension > 10) tensors = {{dimension / 3, 1, dimension - dimension / 3 - 1}};
  auto model = ServerModel::make(std::move(initial), options, tensors, backend(which));
  EXPECT_TRUE(model.has_value()) << model.error().message();
  return std::move(*model);
}

inline ServerStepOptions sparse_step(std::uint32_t entries, double divisor = 1 << 19) {
  ServerStepOptions options;
  options.patch_entries_max = entries;
  options.divisor = divisor;
  return options;
}

}  // namespace gleaner
