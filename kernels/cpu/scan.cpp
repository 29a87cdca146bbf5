// The vector code of a selection, compiled once for every target and chosen at run time. A mask of 64 entries is one
// word: words are written without a branch an entry and read bit by bit, which is cheap because few are set.

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

// Writes the indices of the set bits behind count, and perhaps two more that do not count.
HWY_INLINE std::size_t append_indices(std::uint64_t word, std::uint32_t first, std::uint32_t* indices,
                                      std::size_t count) {
  const auto set = static_cast<std::size_t>(std::popcount(word));
  std::uint32_t* to = indices + count;
  to[0] = first + static_cast<std::uint32_t>(std::countr_zero(word));
  word &= word - 1;
  to[1] = first + static_cast<std::uint32_t>(std::countr_zero(word));
  word &= word - 1;
  if (set > 2) [[unlikely]] {
    for (to += 2; word != 0; word &= word - 1) *to++ = first + static_cast<std::uint32_t>(std::countr_zero(word));
  }
  return count + set;
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
  for (std::size_t j = 0; j < kWord; j += kFloats) {
    word |= compare(form_entries<form>(scan, first + j), above, sums) << j;
  }
  if constexpr (with_norm) {
    for (std::size_t j = 0; j < kWord; j += kNormLanes) add_squares(scan.x + first + j, sums);
  }
  return word;
}

// The last entries of a vector, fewer than a word. Padding with zeros changes no lane of the norm.
template <Form form, bool with_norm>
HWY_INLINE std::uint64_t scan_tail(const FloatScan& scan, std::size_t first, std::size_t n, VI above, Sums& sums) {
  alignas(64) float tail[kWord] = {};
  for (std::size_t j = 0; j < n; ++j) {
    const std::size_t i = first + j;
    if constexpr (form == Form::accumulate) scan.formed[i] = scan.formed[i] + scan.update[i];
    if constexpr (form == Form::subtract) scan.formed[i] = scan.update[i] - scan.tracked[i];
    tail[j] = scan.x[i];
  }
  FloatScan padded;
  padded.x = tail;
  return scan_word<Form::as_is, with_norm>(padded, 0, above, sums) & ((std::uint64_t{1} << n) - 1);
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
  std::uint64_t words[kScanBlock / kWord];
  const std::size_t whole = n / kWord;
  for (std::size_t w = 0; w < whole; ++w) {
    words[w] = scan_word<form, with_norm>(scan, first + w * kWord, above, sums);
  }
  std::size_t count_of_words = whole;
  if (n % kWord != 0) {
    words[count_of_words++] = scan_tail<form, with_norm>(scan, first + whole * kWord, n % kWord, above, sums);
  }

  std::size_t count = scan.found.count;
  for (std::size_t w = 0; w < count_of_words; ++w) {
    count = append_indices(words[w], static_cast<std::uint32_t>(first + w * kWord), scan.found.indices, count);
  }
  for (std::size_t j = scan.found.count; j < count; ++j) {
    scan.found.stored[j] = std::bit_cast<std::uint32_t>(scan.x[scan.found.indices[j]]);
  }
  scan.found.count = count;

  if constexpr (with_norm) {
    alignas(64) double lanes[kNormLanes];
    for (std::size_t j = 0; j < kNormLanes / kDoubles; ++j) hn::Store(sums.lanes[j], DD(), lanes + j * kDoubles);
    scan.block_norms[first / kNormBlock] = fold_norm_lanes(lanes);
  }
  const std::uint32_t most = largest_lane(sums.most);
  scan.most = std::max(scan.most, most);
  if (most >= kInfinityBits && scan.non_finite == std::numeric_limits<std::uint64_t>::max()) {
    std::size_t i = first;
    while (magnitude_bits(scan.x[i]) < kInfinityBits) ++i;
    scan.non_finite = i;
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
    std::uint64_t word = 0;
    if (n == kWord) {
      word = scan_word(scan.x + scan.next, above, most);
    } else {
      std::int64_t tail[kWord] = {};
      std::copy_n(scan.x + scan.next, n, tail);
      word = scan_word(tail, above, most) & ((std::uint64_t{1} << n) - 1);
    }
    const std::size_t before = found.count;
    found.count = append_indices(word, static_cast<std::uint32_t>(scan.next), found.indices, before);
    for (std::size_t j = before; j < found.count; ++j) found.stored[j] = magnitude_bits(scan.x[found.indices[j]]);
    scan.next += n;
  }
  // Not the largest but one that no magnitude is larger than: all ones below the highest bit that is set in any.
  alignas(64) std::uint64_t lanes[kLongs];
  hn::Store(most, DU(), lanes);
  std::uint64_t any = scan.most;
  for (const std::uint64_t lane : lanes) any |= lane;
  scan.most = any == 0 ? 0 : ~std::uint64_t{0} >> std::countl_zero(any);
}

void keep_floats(Candidates<std::uint32_t>& candidates, std::uint32_t threshold, std::uint32_t tie_limit) {
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
    const auto bits = hn::LoadU(du, candidates.stored + j);
    const VI magnitude = hn::And(hn::BitCast(di, bits), hn::Set(di, 0x7fffffff));
    const auto tie_kept = hn::AndNot(hn::RebindMask(di, hn::Gt(index, limit)), hn::Eq(magnitude, least));
    const auto keep = hn::RebindMask(du, hn::Or(hn::Gt(magnitude, least), tie_kept));
    hn::CompressStore(index, keep, du, candidates.indices + kept);
    kept += hn::CompressStore(bits, keep, du, candidates.stored + kept);
  }
  for (; j < n; ++j) {
    const std::uint32_t magnitude = candidates.stored[j] & 0x7fffffffU;
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

void keep_reaching(Candidates<std::uint32_t>& candidates, std::uint32_t threshold, std::uint32_t tie_limit) {
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
