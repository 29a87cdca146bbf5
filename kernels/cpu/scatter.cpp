// Sums on the integer grid. A vector of doubles becomes integers as llrint would make them, on every target alike.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/scatter.cpp"
#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "common/check.hpp"
#include "kernels/arithmetic.hpp"
#include "kernels/cpu/cpu.hpp"

HWY_BEFORE_NAMESPACE();
namespace gleaner::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DD = hn::ScalableTag<double>;
using DH = hn::Rebind<float, DD>;
using DL = hn::RebindToSigned<DD>;
using VD = hn::Vec<DD>;
using VL = hn::Vec<DL>;
constexpr std::size_t kDoubles = hn::MaxLanes(DD());

// llrint of |x| < 2^63. A sum with 3 * 2^(51 + s) is rounded to a multiple of 2^s, to even, and shows that multiple in
// its low bits: first with s = 32, then, for what is left and is exact, with s = 0. The first part is even in units of
// one, so that a half is rounded as in x itself.
HWY_INLINE VL rounded(VD x) {
  const DD d;
  const DL dl;
  const VD coarse_base = hn::Set(d, 0x1.8p84);
  const VD fine_base = hn::Set(d, 0x1.8p52);
  const VD coarse = hn::Add(x, coarse_base);
  const VD fine = hn::Add(hn::Sub(x, hn::Sub(coarse, coarse_base)), fine_base);
  const VL high = hn::Sub(hn::BitCast(dl, coarse), hn::BitCast(dl, coarse_base));
  const VL low = hn::Sub(hn::BitCast(dl, fine), hn::BitCast(dl, fine_base));
  return hn::Add(hn::ShiftLeft<32>(high), low);
}

// The product is rounded once, by the weight; the power of two is exact.
HWY_INLINE VL on_grid(const float* values, VD weight, VD scale) {
  const VD value = hn::PromoteTo(DD(), hn::LoadU(DH(), values));
  return rounded(hn::Mul(hn::Mul(value, weight), scale));
}

void add_dense(std::int64_t* HWY_RESTRICT sum, const float* HWY_RESTRICT values, std::size_t n, double weight,
               double scale) {
  const DL d;
  const VD weights = hn::Set(DD(), weight);
  const VD scales = hn::Set(DD(), scale);
  std::size_t i = 0;
  for (; i + kDoubles <= n; i += kDoubles) {
    hn::StoreU(hn::Add(hn::LoadU(d, sum + i), on_grid(values + i, weights, scales)), d, sum + i);
  }
  for (; i < n; ++i) sum[i] += std::llrint(static_cast<double>(values[i]) * weight * scale);
}

// sum begins with coordinate `first`.
void add_sparse(std::int64_t* HWY_RESTRICT sum, std::uint32_t first, const std::uint32_t* HWY_RESTRICT indices,
                const float* HWY_RESTRICT values, std::size_t n, double weight, double scale) {
  constexpr std::size_t kChunk = 16;  // a cache line of indices
  constexpr std::size_t kAhead = 8 * kChunk;
  const VD weights = hn::Set(DD(), weight);
  const VD scales = hn::Set(DD(), scale);
  alignas(64) std::int64_t steps[kChunk];
  std::size_t j = 0;
  for (; j + kChunk <= n; j += kChunk) {
    // Each update is read in short runs, which no hardware foresees.
    hwy::Prefetch(indices + j + kAhead);
    hwy::Prefetch(values + j + kAhead);
    for (std::size_t i = 0; i < kChunk; i += kDoubles) {
      hn::Store(on_grid(values + j + i, weights, scales), DL(), steps + i);
    }
    for (std::size_t i = 0; i < kChunk; ++i) sum[indices[j + i] - first] += steps[i];
  }
  for (; j < n; ++j) sum[indices[j] - first] += std::llrint(static_cast<double>(values[j]) * weight * scale);
}

}  // namespace HWY_NAMESPACE
}  // namespace gleaner::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gleaner::cpu {

HWY_EXPORT(add_dense);
HWY_EXPORT(add_sparse);

namespace {

// Sums that stay in the second-level cache while every update passes over them.
constexpr std::size_t kSumBlock = std::size_t{1} << 15;

double scale_of(int grid_exponent) {
  GLEANER_CHECK(std::abs(grid_exponent) <= kGridExponentMax);
  return power_of_two(grid_exponent);
}

}  // namespace

void take_out(std::span<float> residual, std::span<const std::uint32_t> indices, std::span<const float> sent) {
  GLEANER_CHECK(indices.size() == sent.size());
  for (std::size_t j = 0; j < indices.size(); ++j) residual[indices[j]] -= sent[j];
}

void put_back(std::span<float> residual, std::span<const std::uint32_t> indices, std::span<const float> sent) {
  GLEANER_CHECK(indices.size() == sent.size());
  for (std::size_t j = 0; j < indices.size(); ++j) residual[indices[j]] += sent[j];
}

void gather(std::span<const float> x, std::span<const std::uint32_t> indices, std::span<float> values) {
  GLEANER_CHECK(indices.size() == values.size());
  for (std::size_t j = 0; j < indices.size(); ++j) values[j] = x[indices[j]];
}

void scatter_add(std::span<std::int64_t> sum, std::span<const std::uint32_t> indices, std::span<const float> values,
                 std::uint32_t weight, int grid_exponent) {
  GLEANER_CHECK(indices.size() == values.size());
  HWY_DYNAMIC_DISPATCH(add_sparse)
  (sum.data(), 0, indices.data(), values.data(), indices.size(), weight, scale_of(grid_exponent));
}

void scatter_add_many(std::span<std::int64_t> sum, std::uint32_t first, std::span<const WeightedUpdate> updates,
                      int grid_exponent) {
  const double scale = scale_of(grid_exponent);
  const std::size_t last = std::size_t{first} + sum.size();
  // What of an update lies before `end`, from its cursor on. The step that brackets it grows, as the block's share of
  // an update is not known.
  std::vector<std::size_t> cursors;
  cursors.reserve(updates.size());
  for (const WeightedUpdate& update : updates) {
    GLEANER_CHECK(update.indices.size() == update.values.size());
    cursors.push_back(
        static_cast<std::size_t>(std::ranges::lower_bound(update.indices, first) - update.indices.begin()));
  }
  for (std::size_t begin = first; begin < last; begin += kSumBlock) {
    const std::size_t end = std::min(last, begin + kSumBlock);
    for (std::size_t u = 0; u < updates.size(); ++u) {
      const WeightedUpdate& update = updates[u];
      const std::size_t from = cursors[u];
      std::size_t step = 1;
      while (from + step < update.indices.size() && update.indices[from + step] < end) step *= 2;
      const auto low =
          update.indices.begin() + static_cast<std::ptrdiff_t>(std::min(from + step / 2, update.indices.size()));
      const auto high =
          update.indices.begin() + static_cast<std::ptrdiff_t>(std::min(from + step, update.indices.size()));
      const auto to = static_cast<std::size_t>(std::lower_bound(low, high, end) - update.indices.begin());
      cursors[u] = to;
      HWY_DYNAMIC_DISPATCH(add_sparse)
      (sum.data(), first, update.indices.data() + from, update.values.data() + from, to - from, update.weight, scale);
    }
  }
}

void dense_add(std::span<std::int64_t> sum, std::span<const float> values, std::uint32_t weight, int grid_exponent) {
  GLEANER_CHECK(sum.size() == values.size());
  HWY_DYNAMIC_DISPATCH(add_dense)(sum.data(), values.data(), sum.size(), weight, scale_of(grid_exponent));
}

}  // namespace gleaner::cpu
#endif
