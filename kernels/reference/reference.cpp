// The definition of every kernel, as plainly as it can be said. Tests compare the other backends with it bit for bit.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/check.hpp"
#include "common/hash.hpp"
#include "kernels/arithmetic.hpp"
#include "kernels/backends.hpp"

namespace gleaner {
namespace {

double squared_norm(std::span<const float> x) {
  double sum = 0.0;
  for (std::size_t begin = 0; begin < x.size(); begin += kNormBlock) {
    const auto block = x.subspan(begin, std::min(kNormBlock, x.size() - begin));
    double lanes[kNormLanes] = {};
    for (std::size_t i = 0; i < block.size(); ++i) {
      lanes[i % kNormLanes] += static_cast<double>(block[i]) * static_cast<double>(block[i]);
    }
    sum += fold_norm_lanes(lanes);
  }
  return sum;
}

// The indices of the k largest magnitudes, ties to the lower index, ascending.
template <class T>
std::vector<std::uint32_t> largest(std::span<const T> x, std::size_t k) {
  std::vector<std::uint32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    const auto magnitude_a = magnitude_bits(x[a]);
    const auto magnitude_b = magnitude_bits(x[b]);
    return magnitude_a != magnitude_b ? magnitude_a > magnitude_b : a < b;
  });
  order.resize(std::min(k, x.size()));
  std::ranges::sort(order);
  return order;
}

void select(std::span<const float> x, std::uint32_t k, Selection& out) {
  GLEANER_CHECK(x.size() <= std::numeric_limits<std::uint32_t>::max());
  out = {.threshold_hint = out.threshold_hint, .parallel = out.parallel};
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (magnitude_bits(x[i]) >= kInfinityBits) {
      out.non_finite_index = i;
      return;
    }
  }
  out.squared_norm = squared_norm(x);
  out.indices = largest(x, k);
  std::uint32_t least = out.indices.empty() ? 0 : kInfinityBits;
  for (const std::uint32_t index : out.indices) {
    out.values.push_back(x[index]);
    least = std::min(least, magnitude_bits(x[index]));
  }
  out.threshold = std::bit_cast<float>(least);
}

void select_segments(std::span<const float> x, std::span<const std::size_t> offsets, std::span<const std::uint32_t> ks,
                     SegmentSelection& out) {
  GLEANER_CHECK(offsets.size() == ks.size() + 1 && offsets.front() == 0 && offsets.back() == x.size());
  GLEANER_CHECK(std::ranges::is_sorted(offsets) && x.size() <= std::numeric_limits<std::uint32_t>::max());
  const Parallel* parallel = out.parallel;
  out = {.parallel = parallel};
  out.begins.push_back(0);
  for (std::size_t s = 0; s < ks.size(); ++s) {
    Selection of_segment;
    select(x.subspan(offsets[s], offsets[s + 1] - offsets[s]), ks[s], of_segment);
    if (of_segment.non_finite_index != Selection::kAllFinite) {
      out = {.non_finite_index = offsets[s] + of_segment.non_finite_index, .parallel = parallel};
      return;
    }
    for (const std::uint32_t index : of_segment.indices) {
      out.indices.push_back(static_cast<std::uint32_t>(offsets[s]) + index);
    }
    out.values.insert(out.values.end(), of_segment.values.begin(), of_segment.values.end());
    out.begins.push_back(out.indices.size());
    out.thresholds.push_back(of_segment.threshold);
    out.squared_norms.push_back(of_segment.squared_norm);
  }
}

void accumulate_and_select(std::span<const float> update, std::span<float> residual, std::uint32_t k, Selection& out) {
  GLEANER_CHECK(update.size() == residual.size());
  for (std::size_t i = 0; i < residual.size(); ++i) residual[i] = residual[i] + update[i];
  select(residual, k, out);
}

void subtract_and_select(std::span<const float> update, std::span<const float> tracked, std::span<float> candidate,
                         std::uint32_t k, Selection& out) {
  GLEANER_CHECK(update.size() == candidate.size() && tracked.size() == candidate.size());
  for (std::size_t i = 0; i < candidate.size(); ++i) candidate[i] = update[i] - tracked[i];
  select(candidate, k, out);
}

void take_out(std::span<float> residual, std::span<const std::uint32_t> indices, std::span<const float> sent) {
  GLEANER_CHECK(indices.size() == sent.size());
  for (std::size_t j = 0; j < indices.size(); ++j) residual[indices[j]] = residual[indices[j]] - sent[j];
}

void put_back(std::span<float> residual, std::span<const std::uint32_t> indices, std::span<const float> sent) {
  GLEANER_CHECK(indices.size() == sent.size());
  for (std::size_t j = 0; j < indices.size(); ++j) residual[indices[j]] = residual[indices[j]] + sent[j];
}

void gather(std::span<const float> x, std::span<const std::uint32_t> indices, std::span<float> values) {
  GLEANER_CHECK(indices.size() == values.size());
  for (std::size_t j = 0; j < indices.size(); ++j) values[j] = x[indices[j]];
}

std::int64_t on_grid(float value, std::uint32_t weight, int grid_exponent) {
  return std::llrint(std::ldexp(static_cast<double>(value) * weight, grid_exponent));
}

void scatter_add(std::span<std::int64_t> sum, std::span<const std::uint32_t> indices, std::span<const float> values,
                 std::uint32_t weight, int grid_exponent) {
  GLEANER_CHECK(indices.size() == values.size() && std::abs(grid_exponent) <= kGridExponentMax);
  for (std::size_t j = 0; j < indices.size(); ++j) sum[indices[j]] += on_grid(values[j], weight, grid_exponent);
}

void scatter_add_many(std::span<std::int64_t> sum, std::uint32_t first, std::span<const WeightedUpdate> updates,
                      int grid_exponent) {
  GLEANER_CHECK(std::abs(grid_exponent) <= kGridExponentMax);
  for (const WeightedUpdate& update : updates) {
    GLEANER_CHECK(update.indices.size() == update.values.size());
    for (std::size_t j = 0; j < update.indices.size(); ++j) {
      if (update.indices[j] < first || update.indices[j] - first >= sum.size()) continue;
      sum[update.indices[j] - first] += on_grid(update.values[j], update.weight, grid_exponent);
    }
  }
}

void dense_add(std::span<std::int64_t> sum, std::span<const float> values, std::uint32_t weight, int grid_exponent) {
  GLEANER_CHECK(sum.size() == values.size() && std::abs(grid_exponent) <= kGridExponentMax);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += on_grid(values[i], weight, grid_exponent);
}

void select_integers(std::span<const std::int64_t> x, std::uint32_t k, std::vector<std::uint32_t>& indices) {
  GLEANER_CHECK(x.size() <= std::numeric_limits<std::uint32_t>::max());
  indices = largest(x, k);
  std::erase_if(indices, [&](std::uint32_t index) { return x[index] == 0; });
}

std::uint64_t apply_patch(std::span<float> model, std::span<const std::uint32_t> indices, std::span<const float> u,
                          std::uint64_t hash) {
  GLEANER_CHECK(indices.size() == u.size());
  for (std::size_t j = 0; j < indices.size(); ++j) {
    float& w = model[indices[j]];
    hash -= coordinate_hash(indices[j], w);
    w = w - u[j];
    hash += coordinate_hash(indices[j], w);
  }
  return hash;
}

std::uint64_t range_hash(std::span<const float> range, std::uint32_t first) {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < range.size(); ++i) {
    hash += coordinate_hash(first + static_cast<std::uint32_t>(i), range[i]);
  }
  return hash;
}

std::uint64_t model_hash(std::span<const float> model) { return range_hash(model, 0); }

}  // namespace

const KernelTable& reference_kernels() {
  static constexpr KernelTable table = {
      .name = "reference",
      .select = select,
      .select_segments = select_segments,
      .accumulate_and_select = accumulate_and_select,
      .subtract_and_select = subtract_and_select,
      .take_out = take_out,
      .put_back = put_back,
      .gather = gather,
      .scatter_add = scatter_add,
      .dense_add = dense_add,
      .scatter_add_many = scatter_add_many,
      .select_integers = select_integers,
      .apply_patch = apply_patch,
      .model_hash = model_hash,
      .range_hash = range_hash,
  };
  return table;
}

}  // namespace gleaner
