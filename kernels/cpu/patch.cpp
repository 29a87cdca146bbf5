// The model's hash: 64-bit products, which most vector units lack, are made of 32-bit ones.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/patch.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <bit>

#include "common/check.hpp"
#include "common/hash.hpp"
#include "kernels/cpu/cpu.hpp"

HWY_BEFORE_NAMESPACE();
namespace gleaner::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DU = hn::ScalableTag<std::uint64_t>;
using DW = hn::Repartition<std::uint32_t, DU>;
using DH = hn::Rebind<std::uint32_t, DU>;
using VU = hn::Vec<DU>;
constexpr std::size_t kLongs = hn::MaxLanes(DU());

template <std::uint64_t factor>
HWY_INLINE VU times(VU x) {
  const DU d;
#if HWY_TARGET <= HWY_AVX3
  return hn::Mul(x, hn::Set(d, factor));
#else
  const DW dw;
  const auto low = hn::BitCast(dw, hn::Set(d, factor & 0xffffffffU));
  const auto high = hn::BitCast(dw, hn::Set(d, factor >> 32));
  const VU crossed =
      hn::Add(hn::MulEven(hn::BitCast(dw, x), high), hn::MulEven(hn::BitCast(dw, hn::ShiftRight<32>(x)), low));
  return hn::Add(hn::MulEven(hn::BitCast(dw, x), low), hn::ShiftLeft<32>(crossed));
#endif
}

// mix64 of common/hash.hpp.
HWY_INLINE VU mixed(VU x) {
  x = hn::Add(x, hn::Set(DU(), 0x9e3779b97f4a7c15ULL));
  x = times<0xbf58476d1ce4e5b9ULL>(hn::Xor(x, hn::ShiftRight<30>(x)));
  x = times<0x94d049bb133111ebULL>(hn::Xor(x, hn::ShiftRight<27>(x)));
  return hn::Xor(x, hn::ShiftRight<31>(x));
}

HWY_INLINE std::uint64_t sum_of_lanes(VU x) {
  alignas(64) std::uint64_t lanes[kLongs];
  hn::Store(x, DU(), lanes);
  std::uint64_t sum = 0;
  for (const std::uint64_t lane : lanes) sum += lane;
  return sum;
}

HWY_INLINE VU bits_of(const float* x) {
  const hn::Rebind<float, DU> df;
  return hn::PromoteTo(DU(), hn::BitCast(DH(), hn::LoadU(df, x)));
}

std::uint64_t hash_range(const float* x, std::size_t n, std::uint32_t first) {
  const DU d;
  VU sum = hn::Zero(d);
  VU index = hn::ShiftLeft<32>(hn::Add(hn::Set(d, first), hn::Iota(d, 0)));
  const VU step = hn::Set(d, std::uint64_t{kLongs} << 32);
  std::size_t i = 0;
  for (; i + kLongs <= n; i += kLongs) {
    sum = hn::Add(sum, mixed(hn::Or(index, bits_of(x + i))));
    index = hn::Add(index, step);
  }
  std::uint64_t hash = sum_of_lanes(sum);
  for (; i < n; ++i) hash += coordinate_hash(first + static_cast<std::uint32_t>(i), x[i]);
  return hash;
}

std::uint64_t patch(float* model, const std::uint32_t* indices, const float* u, std::size_t n, std::uint64_t hash) {
  constexpr std::size_t kChunk = 32;
  const DU d;
  alignas(64) float before[kChunk];
  alignas(64) float after[kChunk];
  VU change = hn::Zero(d);
  std::size_t j = 0;
  for (; j + kChunk <= n; j += kChunk) {
    for (std::size_t i = 0; i < kChunk; ++i) {
      float& w = model[indices[j + i]];
      before[i] = w;
      w = after[i] = before[i] - u[j + i];
    }
    for (std::size_t i = 0; i < kChunk; i += kLongs) {
      const VU index = hn::ShiftLeft<32>(hn::PromoteTo(d, hn::LoadU(DH(), indices + j + i)));
      change = hn::Add(change, mixed(hn::Or(index, bits_of(after + i))));
      change = hn::Sub(change, mixed(hn::Or(index, bits_of(before + i))));
    }
  }
  hash += sum_of_lanes(change);
  for (; j < n; ++j) {
    float& w = model[indices[j]];
    hash -= coordinate_hash(indices[j], w);
    w = w - u[j];
    hash += coordinate_hash(indices[j], w);
  }
  return hash;
}

}  // namespace HWY_NAMESPACE
}  // namespace gleaner::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gleaner::cpu {

HWY_EXPORT(hash_range);
HWY_EXPORT(patch);

std::uint64_t apply_patch(std::span<float> model, std::span<const std::uint32_t> indices, std::span<const float> u,
                          std::uint64_t hash) {
  GLEANER_CHECK(indices.size() == u.size());
  return HWY_DYNAMIC_DISPATCH(patch)(model.data(), indices.data(), u.data(), indices.size(), hash);
}

std::uint64_t range_hash(std::span<const float> range, std::uint32_t first) {
  return HWY_DYNAMIC_DISPATCH(hash_range)(range.data(), range.size(), first);
}

std::uint64_t model_hash(std::span<const float> model) { return range_hash(model, 0); }

}  // namespace gleaner::cpu
#endif
