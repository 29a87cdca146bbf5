// The vector code of a selection, compiled once for every target and chosen at run time. The comparisons of 64
// entries make one word, which is read bit by bit: few are set.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/scan.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/arithmetic.hpp"
#include "kernels/cpu/scan.hpp"

HWY_BEFORE_NAMESPACE();
namespace gleaner::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kWord = 64;
constexpr std::size_t kDense = 10;  // set bits in a word from which on compressing whole vectors is faster
using DF = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<DF>;
using DD = hn::ScalableTag<double>;
using DH = hn::Rebind<float, DD>;
using DL = hn::ScalableTag<std::int64_t>;
using DU = hn::RebindToUnsigned<DL>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
using VD = hn::Vec<DD>;
using VU = hn::Vec<DU>;
constexpr std::size_t kFloats = hn::MaxLanes(DF());
constexpr std::size_t kDoubles = hn::MaxLanes(DD());
constexpr std::size_t kLongs = hn::MaxLanes(DL());

template <class D>
HWY_INLINE std::uint64_t mask_bits(D d, hn::Mask<D> mask) {
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(d, mask, bytes);
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return bits;
}

// Appends the entries of x, whose first is entry `first` of the vector, at the set bits. Two are written always, and
// count when they are there: few words have more, so that the branch is foreseen.
HWY_INLINE void append(std::uint64_t word, const float* x, std::uint32_t first, Candidates<float>& found) {
  const auto set = static_cast<std::size_t>(std::popcount(word));
  std::uint32_t* indices = found.indices + found.count;
  float* stored = found.stored + found.count;
  found.count += set;
  if (set > kDense) [[unlikely]] {
    const hn::RebindToUnsigned<DF> d;
    for (std::size_t j = 0; j < kWord; j += kFloats) {
      const std::uint64_t part = (word >> j) & ((std::uint64_t{1} << kFloats) - 1);
      std::uint8_t bits[8];
      std::memcpy(bits, &part, sizeof part);
      hn::CompressBitsStore(hn::Iota(d, first + static_cast<std::uint32_t>(j)), bits, d, indices);
      const std::size_t n = hn::CompressBitsStore(hn::LoadU(DF(), x + j), bits, DF(), stored);
      indices += n;
      stored += n;
    }
    return;
  }
  for (std::size_t j = 0; j < 2; ++j, word &= word - 1) {
    const int at = std::countr_zero(word) & 63;
    indices[j] = first + static_cast<std::uint32_t>(at);
    stored[j] = x[at];
  }
  for (std::size_t j = 2; word != 0; ++j, word &= word - 1) {
    const int at = std::countr_zero(word);
    indices[j] = first + static_cast<std::uint32_t>(at);
    stored[j] = x[at];
  }
}

// The same for integers, which are stored as magnitudes.
HWY_INLINE void append(std::uint64_t word, const std::int64_t* x, std::uint32_t first,
                       Candidates<std::uint64_t>& found) {
  const auto set = static_cast<std::size_t>(std::popcount(word));
  for (std::size_t j = found.count; word != 0; ++j, word &= word - 1) {
    const int at = std::countr_zero(word);
    found.indices[j] = first + static_cast<std::uint32_t>(at);
    found.stored[j] = magnitude_bits(x[at]);
  }
  found.count += set;
}

// What a block leaves in registers.
struct Sums {
  VD lanes[kNormLanes / kDoubles];
  VI most;
};

HWY_INLINE void add_squares(const float* x, Sums& sums) {
  for (std::size_t j = 0; j < kNormLanes / kDoubles; ++j) {
    const VD value = hn::PromoteTo(DD(), hn::LoadU(DH(), x + j * kDoubles));
    // The square is exact, so that a fused multiply-add rounds as the two operations do.
    sums.lanes[j] = hn::MulAdd(value, value, sums.lanes[j]);
  }
}

template <Form form>
HWY_INLINE VF form_entries(const FloatScan& scan, std::size_t i) {
  const DF d;
  if constexpr (form == Form::as_is) return hn::LoadU(d, scan.x + i);
  VF formed;
  if constexpr (form == Form::accumulate) {
    formed = hn::Add(hn::LoadU(d, scan.formed + i), hn::LoadU(d, scan.update + i));
  } else {
    formed = hn::Sub(hn::LoadU(d, scan.update + i), hn::LoadU(d, scan.tracked + i));
  }
  hn::StoreU(formed, d, scan.formed + i);
  return formed;
}

HWY_INLINE std::uint64_t compare(VF x, VI above, Sums& sums) {
  const DI d;
  const VI magnitude = hn::And(hn::BitCast(d, x), hn::Set(d, 0x7fffffff));
  sums.most = hn::Max(sums.most, magnitude);
  return mask_bits(d, hn::Gt(magnitude, above));
}

template <Form form, bool with_norm>
HWY_INLINE std::uint64_t scan_word(const FloatScan& scan, std::size_t first, VI above, Sums& sums) {
  std::uint64_t word = 0;
  for (std::size_t j = 0; j < kWord; j += kNormLanes) {
    for (std::size_t v = j; v < j + kNormLanes; v += kFloats) {
      word |= compare(form_entries<form>(scan, first + v), above, sums) << v;
    }
    if constexpr (with_norm) add_squares(scan.x + first + j, sums);
  }
  return word;
}

// The last entries of a vector, fewer than a word. Padding with zeros changes no lane of the norm.
template <Form form, bool with_norm>
HWY_INLINE void scan_tail(const FloatScan& scan, std::size_t first, std::size_t n, VI above, Sums& sums,
                          Candidates<float>& found) {
  alignas(64) float tail[kWord] = {};
  for (std::size_t j = 0; j < n; ++j) {
    const std::size_t i = first + j;
    if constexpr (form == Form::accumulate) scan.formed[i] = scan.formed[i] + scan.update[i];
    if constexpr (form == Form::subtract) scan.formed[i] = scan.update[i] - scan.tracked[i];
    tail[j] = scan.x[i];
  }
  FloatScan padded;
  padded.x = tail;
  const std::uint64_t word = scan_word<Form::as_is, with_norm>(padded, 0, above, sums);
  append(word & ((std::uint64_t{1} << n) - 1), tail, static_cast<std::uint32_t>(first), found);
}

HWY_INLINE std::uint32_t largest_lane(VI most) {
  alignas(64) std::int32_t lanes[kFloats];
  hn::Store(most, DI(), lanes);
  return static_cast<std::uint32_t>(*std::max_element(lanes, lanes + kFloats));
}

template <Form form, bool with_norm>
HWY_INLINE void scan_block(FloatScan& scan, std::size_t first, std::size_t n) {
  Sums sums;
  for (VD& lane : sums.lanes) lane = hn::Zero(DD());
  sums.most = hn::Zero(DI());
  const VI above = hn::Set(DI(), scan.above);
  // Copies, because what is stored into the vector might be the members for all that the compiler knows.
  const FloatScan input = scan;
  Candidates<float> found = scan.found;
  const std::size_t end = first + n;
  std::size_t i = first;
  for (; i + kWord <= end; i += kWord) {
    const std::uint64_t word = scan_word<form, with_norm>(input, i, above, sums);
    append(word, input.x + i, static_cast<std::uint32_t>(i), found);
  }
  if (i < end) scan_tail<form, with_norm>(input, i, end - i, above, sums, found);
  scan.found.count = found.count;

  if constexpr (with_norm) {
    alignas(64) double lanes[kNormLanes];
    for (std::size_t j = 0; j < kNormLanes / kDoubles; ++j) hn::Store(sums.lanes[j], DD(), lanes + j * kDoubles);
    scan.block_norms[first / kNormBlock] = fold_norm_lanes(lanes);
  }
  const std::uint32_t most = largest_lane(sums.most);
  scan.most = std::max(scan.most, most);
  if (most >= kInfinityBits && scan.non_finite == std::numeric_limits<std::uint64_t>::max()) {
    scan.non_finite = first;
    while (magnitude_bits(scan.x[scan.non_finite]) < kInfinityBits) ++scan.non_finite;
  }
}

template <Form form, bool with_norm>
HWY_INLINE void scan_blocks(FloatScan& scan) {
  while (scan.next < scan.end && scan.found.count + kScanBlock <= scan.found.capacity) {
    const std::size_t n = std::min(kScanBlock, scan.end - scan.next);
    scan_block<form, with_norm>(scan, scan.next, n);
    scan.next += n;
  }
}

void scan_floats(FloatScan& scan) {
  if (scan.block_norms == nullptr) return scan_blocks<Form::as_is, false>(scan);
  switch (scan.form) {
    case Form::as_is: return scan_blocks<Form::as_is, true>(scan);
    case Form::accumulate: return scan_blocks<Form::accumulate, true>(scan);
    case Form::subtract: return scan_blocks<Form::subtract, true>(scan);
  }
}

HWY_INLINE std::uint64_t scan_word(const std::int64_t* x, VU above, VU& most) {
  const DL d;
  std::uint64_t word = 0;
  for (std::size_t j = 0; j < kWord; j += kLongs) {
    const auto value = hn::LoadU(d, x + j);
    const auto sign = hn::BroadcastSignBit(value);
    const VU magnitude = hn::BitCast(DU(), hn::Sub(hn::Xor(value, sign), sign));
    const auto reaches = hn::Gt(magnitude, above);
    most = hn::Or(most, magnitude);
    word |= mask_bits(DU(), reaches) << j;
  }
  return word;
}

void scan_integers(IntegerScan& scan) {
  const VU above = hn::Set(DU(), scan.above);
  VU most = hn::Zero(DU());
  Candidates<std::uint64_t>& found = scan.found;
  while (scan.next < scan.end && found.count + kWord <= found.capacity) {
    const std::size_t n = std::min(kWord, scan.end - scan.next);
    const auto first = static_cast<std::uint32_t>(scan.next);
    if (n == kWord) {
      append(scan_word(scan.x + scan.next, above, most), scan.x + scan.next, first, found);
    } else {
      std::int64_t tail[kWord] = {};
      std::copy_n(scan.x + scan.next, n, tail);
      append(scan_word(tail, above, most) & ((std::uint64_t{1} << n) - 1), tail, first, found);
    }
    scan.next += n;
  }
  // Not the largest but one that no magnitude is larger than: all ones below the highest bit that is set in any.
  alignas(64) std::uint64_t lanes[kLongs];
  hn::Store(most, DU(), lanes);
  std::uint64_t any = scan.most;
  for (const std::uint64_t lane : lanes) any |= lane;
  scan.most = any == 0 ? 0 : ~std::uint64_t{0} >> std::countl_zero(any);
}

void keep_floats(Candidates<float>& candidates, std::uint32_t threshold, std::uint32_t tie_limit) {
  const hn::RebindToUnsigned<DF> du;
  const DI di;
  const VI least = hn::Set(di, static_cast<std::int32_t>(threshold));
  const auto limit = hn::Set(du, tie_limit);
  const std::size_t n = candidates.count;
  std::size_t kept = 0;
  std::size_t j = 0;
  // A vector is written where it was read or before: what is not read yet is not overwritten.
  for (; j + kFloats <= n; j += kFloats) {
    const auto index = hn::LoadU(du, candidates.indices + j);
    const VF value = hn::LoadU(DF(), candidates.stored + j);
    const VI magnitude = hn::And(hn::BitCast(di, value), hn::Set(di, 0x7fffffff));
    const auto tie_kept = hn::AndNot(hn::RebindMask(di, hn::Gt(index, limit)), hn::Eq(magnitude, least));
    const auto keep = hn::RebindMask(du, hn::Or(hn::Gt(magnitude, least), tie_kept));
    hn::CompressStore(index, keep, du, candidates.indices + kept);
    kept += hn::CompressStore(value, hn::RebindMask(DF(), keep), DF(), candidates.stored + kept);
  }
  for (; j < n; ++j) {
    const std::uint32_t magnitude = magnitude_bits(candidates.stored[j]);
    candidates.indices[kept] = candidates.indices[j];
    candidates.stored[kept] = candidates.stored[j];
    kept += static_cast<std::size_t>(magnitude > threshold ||
                                     (magnitude == threshold && candidates.indices[j] <= tie_limit));
  }
  candidates.count = kept;
}

}  // namespace HWY_NAMESPACE
}  // namespace gleaner::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gleaner::cpu {

HWY_EXPORT(scan_floats);
HWY_EXPORT(scan_integers);
HWY_EXPORT(keep_floats);

void scan(FloatScan& scan) { HWY_DYNAMIC_DISPATCH(scan_floats)(scan); }
void scan(IntegerScan& scan) { HWY_DYNAMIC_DISPATCH(scan_integers)(scan); }

void keep_reaching(Candidates<float>& candidates, std::uint32_t threshold, std::uint32_t tie_limit) {
  HWY_DYNAMIC_DISPATCH(keep_floats)(candidates, threshold, tie_limit);
}

void keep_reaching(Candidates<std::uint64_t>& candidates, std::uint64_t threshold, std::uint32_t tie_limit) {
  std::size_t kept = 0;
  for (std::size_t j = 0; j < candidates.count; ++j) {
    const std::uint64_t magnitude = candidates.stored[j];
    const std::uint32_t index = candidates.indices[j];
    candidates.indices[kept] = index;
    candidates.stored[kept] = magnitude;
    kept += static_cast<std::size_t>(magnitude > threshold) |
            (static_cast<std::size_t>(magnitude == threshold) & static_cast<std::size_t>(index <= tie_limit));
  }
  candidates.count = kept;
}

}  // namespace gleaner::cpu
#endif
