#pragma once
// Where a selection ends among its candidates, and where it will probably end in a vector not seen yet.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/hash.hpp"
#include "kernels/cpu/scan.hpp"

namespace gleaner::cpu {

constexpr std::uint32_t magnitude_of(float stored) { return magnitude_bits(stored); }
constexpr std::uint64_t magnitude_of(std::uint64_t stored) { return stored; }

template <class Bits>
struct Cut {
  Bits threshold = 0;
  std::size_t ties = 0;      // how many entries of just the threshold belong to the selection, at least one
  std::size_t all_ties = 0;  // of those that there are
};

// The k-th largest magnitude of the lists, which lies in [least, most]; 0 < k <= their entries. Digit by digit from
// above: every round a histogram over the range that is left, then only its entries go on.
template <class Bits, class T>
Cut<Bits> cut_of(std::span<const Candidates<T>> lists, std::size_t k, Bits least, Bits most) {
  constexpr int kDigit = 10;
  constexpr std::size_t kWays = 4;  // equal entries one after the other would wait for each other's count
  using Counts = std::array<std::uint32_t, std::size_t{1} << kDigit>;
  std::vector<Bits> in_range;
  bool gathered = false;
  const auto each = [&](auto visit) {  // visit(n, magnitude_at)
    if (gathered) return visit(in_range.size(), [&](std::size_t j) { return in_range[j]; });
    for (const Candidates<T>& list : lists) {
      visit(list.count, [&](std::size_t j) -> Bits { return magnitude_of(list.stored[j]); });
    }
  };
  if (least == 0) {  // nothing is known of the range: most entries may well be zero, and need no digits
    std::size_t zeros = 0;
    std::size_t all = 0;
    each([&](std::size_t entries, auto magnitude_at) {
      for (std::size_t j = 0; j < entries; ++j) zeros += static_cast<std::size_t>(magnitude_at(j) == 0);
      all += entries;
    });
    if (all - zeros < k) return {.threshold = 0, .ties = k - (all - zeros), .all_ties = zeros};
  }
  while (true) {
    const auto width = static_cast<int>(std::bit_width(static_cast<Bits>(most - least)));
    const int shift = std::max(0, width - kDigit);
    std::array<Counts, kWays> counts{};
    each([&](std::size_t entries, auto magnitude_at) {
      for (std::size_t j = 0; j < entries; ++j) {
        ++counts[j % kWays][static_cast<std::size_t>(static_cast<Bits>(magnitude_at(j) - least) >> shift)];
      }
    });
    std::size_t digit = counts[0].size();
    std::size_t here = 0;
    while (true) {
      --digit;
      here = 0;
      for (const Counts& way : counts) here += way[digit];
      if (here >= k || digit == 0) break;
      k -= here;
    }
    const Bits low = static_cast<Bits>(least + (static_cast<Bits>(digit) << shift));
    if (shift == 0) return {.threshold = low, .ties = k, .all_ties = here};
    const Bits high = std::min(most, static_cast<Bits>(low + ((Bits{1} << shift) - 1)));
    std::vector<Bits> next(here + 1);
    std::size_t n = 0;
    each([&](std::size_t entries, auto magnitude_at) {
      for (std::size_t j = 0; j < entries; ++j) {
        const Bits magnitude = magnitude_at(j);
        next[n] = magnitude;
        n += static_cast<std::size_t>(static_cast<Bits>(magnitude - low) <= high - low);
      }
    });
    next.resize(n);
    in_range = std::move(next);
    gathered = true;
    least = low;
    most = high;
  }
}

// A magnitude that at least k of the entries first, ..., first + n - 1 very probably reach, and not many more: the
// order statistic of a sample of neighbours from each of equal ranges, three deviations on the safe side. A larger
// sample costs more to take, a smaller one brings more candidates: about cbrt(k n) is best. 0 when it cannot tell.
template <class Bits, class MagnitudeAt>
Bits sampled_bound(std::size_t first, std::size_t n, std::size_t k, MagnitudeAt magnitude_at) {
  constexpr std::size_t kSampleMin = 1024;
  constexpr std::size_t kSampleMax = 65536;
  constexpr std::size_t kNeighbours = 4;  // one cache miss for all
  if (n < 8 * kSampleMin || k >= n / 2) return 0;
  std::size_t size = kSampleMin;
  while (size < kSampleMax && size * size * size < k * n) size += size / 4;
  const std::size_t ranges = std::min(size, n / 8) / kNeighbours;
  size = ranges * kNeighbours;
  std::vector<Bits> sample(size);
  const std::size_t step = n / ranges;
  for (std::size_t i = 0; i < ranges; ++i) {
    const std::size_t at = first + i * step + mix64(i) % (step - kNeighbours + 1);
    for (std::size_t j = 0; j < kNeighbours; ++j) sample[i * kNeighbours + j] = magnitude_at(at + j);
  }
  const std::size_t expected = k * size / n + 1;
  const auto deviation = static_cast<std::size_t>(std::sqrt(static_cast<double>(expected)));
  const std::size_t rank = expected + 3 * deviation + 3;
  if (rank >= size) return 0;
  std::nth_element(sample.begin(), sample.begin() + static_cast<std::ptrdiff_t>(rank), sample.end(), std::greater{});
  return sample[rank];
}

}  // namespace gleaner::cpu
