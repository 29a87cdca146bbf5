#include "common/check.hpp"
#include "kernels/arithmetic.hpp"
#include "kernels/cpu/candidates.hpp"
#include "kernels/cpu/cpu.hpp"

namespace gleaner::cpu {
namespace {

constexpr std::size_t kIndexMax = std::numeric_limits<std::uint32_t>::max();

double squared_norm_of_block(const float* x, std::size_t n) {
  double lanes[kNormLanes] = {};
  const std::size_t whole = n / kNormLanes * kNormLanes;
  for (std::size_t i = 0; i < whole; i += kNormLanes) {
    for (std::size_t j = 0; j < kNormLanes; ++j) {
      const auto value = static_cast<double>(x[i + j]);
      lanes[j] += value * value;
    }
  }
  for (std::size_t i = whole; i < n; ++i) {
    const auto value = static_cast<double>(x[i]);
    lanes[i - whole] += value * value;
  }
  return fold_norm_lanes(lanes);
}

bool all_finite(const float* x, std::size_t n) {
  std::uint32_t carry = 0;  // the sign bit is set once a magnitude reached infinity's
  for (std::size_t i = 0; i < n; ++i) carry |= magnitude_bits(x[i]) + (0x80000000U - kInfinityBits);
  return (carry >> 31) == 0;
}

void select_all(std::span<const float> x, Selection& out) {
  out.indices.resize(x.size());
  out.values.assign(x.begin(), x.end());
  std::uint32_t least = x.empty() ? 0 : kInfinityBits;
  for (std::size_t i = 0; i < x.size(); ++i) {
    out.indices[i] = static_cast<std::uint32_t>(i);
    least = std::min(least, magnitude_bits(x[i]));
  }
  out.threshold = std::bit_cast<float>(least);
}

// prepare(first, n) forms the entries first, ... of x in place; each is formed once, in order, while its block is in
// the first-level cache. value_at(i) is entry i before it is formed.
template <class Prepare, class ValueAt>
void select_prepared(std::span<const float> x, std::uint32_t k, Selection& out, Prepare prepare, ValueAt value_at) {
  GLEANER_CHECK(x.size() <= kIndexMax);
  out.indices.clear();
  out.values.clear();
  out.threshold = 0.0F;
  out.squared_norm = 0.0;
  out.non_finite_index = Selection::kAllFinite;

  const bool some = k > 0 && k < x.size();
  std::uint32_t bound = 0;
  if (some) {
    bound = sampled_bound<std::uint32_t>(x.size(), k, [&](std::size_t i) { return magnitude_bits(value_at(i)); });
  }
  Candidates<std::uint32_t> candidates(some ? k : 0, x.size(), bound);
  double norm = 0.0;
  for (std::size_t first = 0; first < x.size(); first += kNormBlock) {
    const std::size_t n = std::min(kNormBlock, x.size() - first);
    const float* block = x.data() + first;
    prepare(first, n);
    if (out.non_finite_index != Selection::kAllFinite) continue;
    if (!all_finite(block, n)) {
      std::size_t i = 0;
      while (magnitude_bits(block[i]) < kInfinityBits) ++i;
      out.non_finite_index = first + i;
      continue;
    }
    norm += squared_norm_of_block(block, n);
    if (some) candidates.scan(block, n, first);
  }
  if (out.non_finite_index != Selection::kAllFinite) return;
  out.squared_norm = norm;
  if (k >= x.size()) return select_all(x, out);
  if (k == 0) return;

  std::uint32_t threshold = 0;
  if (!candidates.finish(out.indices, threshold)) {
    Candidates<std::uint32_t> again(k, x.size(), 0);
    again.scan(x.data(), x.size(), 0);
    GLEANER_CHECK(again.finish(out.indices, threshold));
  }
  out.threshold = std::bit_cast<float>(threshold);
  out.values.resize(k);
  for (std::size_t j = 0; j < k; ++j) out.values[j] = x[out.indices[j]];
}

}  // namespace

void select(std::span<const float> x, std::uint32_t k, Selection& out) {
  select_prepared(x, k, out, [](std::size_t, std::size_t) {}, [x](std::size_t i) { return x[i]; });
}

void accumulate_and_select(std::span<const float> update, std::span<float> residual, std::uint32_t k, Selection& out) {
  GLEANER_CHECK(update.size() == residual.size());
  select_prepared(
      residual, k, out,
      [update, residual](std::size_t first, std::size_t n) {
        const float* from = update.data() + first;
        float* to = residual.data() + first;
        for (std::size_t i = 0; i < n; ++i) to[i] += from[i];
      },
      [update, residual](std::size_t i) { return residual[i] + update[i]; });
}

void subtract_and_select(std::span<const float> update, std::span<const float> tracked, std::span<float> candidate,
                         std::uint32_t k, Selection& out) {
  GLEANER_CHECK(update.size() == candidate.size() && tracked.size() == candidate.size());
  select_prepared(
      candidate, k, out,
      [update, tracked, candidate](std::size_t first, std::size_t n) {
        const float* from = update.data() + first;
        const float* minus = tracked.data() + first;
        float* to = candidate.data() + first;
        for (std::size_t i = 0; i < n; ++i) to[i] = from[i] - minus[i];
      },
      [update, tracked](std::size_t i) { return update[i] - tracked[i]; });
}

void select_integers(std::span<const std::int64_t> x, std::uint32_t k, std::vector<std::uint32_t>& indices) {
  GLEANER_CHECK(x.size() <= kIndexMax);
  indices.clear();
  if (k == 0) return;
  if (k < x.size()) {
    const auto bound = sampled_bound<std::uint64_t>(x.size(), k, [&](std::size_t i) { return magnitude_bits(x[i]); });
    std::uint64_t threshold = 0;
    Candidates<std::uint64_t> candidates(k, x.size(), bound);
    candidates.scan(x.data(), x.size(), 0);
    if (!candidates.finish(indices, threshold)) {
      Candidates<std::uint64_t> again(k, x.size(), 0);
      again.scan(x.data(), x.size(), 0);
      GLEANER_CHECK(again.finish(indices, threshold));
    }
    if (threshold > 0) return;
  } else {
    indices.resize(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) indices[i] = static_cast<std::uint32_t>(i);
  }
  std::erase_if(indices, [&](std::uint32_t index) { return x[index] == 0; });
}

}  // namespace gleaner::cpu
