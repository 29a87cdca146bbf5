#pragma once
// Exact top-k in one pass: candidates above a lower bound of the k-th magnitude, with the ties of the bound apart.
// The bound comes from a sample; when it was too low the candidates are pruned on the way, when it was too high
// finish() says so and the caller scans again with the bound 0. Not thread-safe; one per call.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/hash.hpp"
#include "kernels/arithmetic.hpp"

namespace gleaner::cpu {

// Bits is the unsigned type of the magnitudes.
template <class Bits>
class Candidates {
 public:
  Candidates(std::size_t k, std::size_t dimension, Bits bound)
      : k_(k),
        capacity_(std::min(dimension, 2 * k + 4096) + kStride),
        bound_(bound),
        test_(bound),
        indices_(std::make_unique_for_overwrite<std::uint32_t[]>(capacity_)),
        magnitudes_(std::make_unique_for_overwrite<Bits[]>(capacity_)),
        ties_(std::make_unique_for_overwrite<std::uint32_t[]>(k + 1)) {}

  // x[0, n) are the entries first, first + 1, ...; calls go in ascending order.
  template <class T>
  void scan(const T* x, std::size_t n, std::size_t first) {
    std::size_t i = 0;
    for (; i + kStride <= n; i += kStride) {
      if (any_reaches(x + i)) collect(x + i, kStride, first + i);
    }
    if (i < n) collect(x + i, n - i, first + i);
  }

  // The k indices, ascending; false when there are fewer than k (the bound was too high). k > 0.
  bool finish(std::vector<std::uint32_t>& out, Bits& threshold) {
    if (count_ + tie_count_ < k_) return false;
    if (count_ >= k_) raise_bound();
    const std::size_t ties = k_ - count_;  // at least one
    threshold = bound_;
    out.resize(k_);
    std::merge(indices_.get(), indices_.get() + count_, ties_.get(), ties_.get() + ties, out.begin());
    return true;
  }

 private:
  static constexpr std::size_t kStride = 16;

  template <class T>
  bool any_reaches(const T* x) const {
    if constexpr (sizeof(Bits) == 4) {
      // Both sides are below 2^31, so the difference is negative exactly when the magnitude is below the bound.
      Bits below = ~Bits{0};
      for (std::size_t j = 0; j < kStride; ++j) below &= magnitude_bits(x[j]) - test_;
      return (below >> 31) == 0;
    } else {
      bool any = false;
      for (std::size_t j = 0; j < kStride; ++j) any |= magnitude_bits(x[j]) >= test_;
      return any;
    }
  }

  // Keeps n entries; entry(j) is the index and magnitude of the j-th. Written always, counted when kept: no branch to
  // mispredict. The counts are locals, or every entry would wait for the store of the one before.
  template <class Entry>
  void keep(std::size_t n, Entry entry) {
    std::uint32_t* const indices = indices_.get();
    Bits* const magnitudes = magnitudes_.get();
    std::uint32_t* const ties = ties_.get();
    const Bits bound = bound_;
    const std::size_t k = k_;
    std::size_t count = count_;
    std::size_t tie_count = tie_count_;
    for (std::size_t j = 0; j < n; ++j) {
      const auto [index, magnitude] = entry(j);
      indices[count] = index;
      magnitudes[count] = magnitude;
      count += static_cast<std::size_t>(magnitude > bound);
      ties[tie_count] = index;
      tie_count += static_cast<std::size_t>(magnitude == bound) & static_cast<std::size_t>(tie_count < k);
    }
    count_ = count;
    tie_count_ = tie_count;
    // k ties are enough: from now on only larger magnitudes are looked at.
    test_ = bound + static_cast<Bits>(tie_count == k);
  }

  template <class T>
  void collect(const T* x, std::size_t n, std::size_t first) {
    if (count_ + n > capacity_) raise_bound();
    keep(n, [&](std::size_t j) { return std::pair(static_cast<std::uint32_t>(first + j), magnitude_bits(x[j])); });
  }

  // Moves the bound to the k-th magnitude of the candidates (there are at least k).
  void raise_bound() {
    std::vector<Bits> order(magnitudes_.get(), magnitudes_.get() + count_);
    std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k_ - 1), order.end(), std::greater{});
    bound_ = order[k_ - 1];
    const std::size_t before = std::exchange(count_, 0);
    tie_count_ = 0;
    keep(before, [&](std::size_t j) { return std::pair(indices_[j], magnitudes_[j]); });
  }

  std::size_t k_;
  std::size_t capacity_;
  Bits bound_;
  Bits test_;  // blocks without a magnitude >= test_ are skipped
  std::size_t count_ = 0;
  std::size_t tie_count_ = 0;  // at most k
  std::unique_ptr<std::uint32_t[]> indices_;
  std::unique_ptr<Bits[]> magnitudes_;
  std::unique_ptr<std::uint32_t[]> ties_;
};

// A magnitude that at least k of the dimension entries very probably reach, and not many more: the order statistic of
// a stratified sample, five deviations on the safe side. magnitude_at(i) is the magnitude of entry i; 0 < k <
// dimension.
template <class Bits, class MagnitudeAt>
Bits sampled_bound(std::size_t dimension, std::size_t k, MagnitudeAt magnitude_at) {
  constexpr std::size_t kSampleMin = 4096;
  constexpr std::size_t kSampleMax = 65536;
  const std::size_t size = std::min(dimension, std::clamp(dimension / 128, kSampleMin, kSampleMax));
  std::vector<Bits> sample(size);
  std::size_t rank = k - 1;
  if (size == dimension) {
    for (std::size_t i = 0; i < size; ++i) sample[i] = magnitude_at(i);
  } else {
    const std::size_t step = dimension / size;
    for (std::size_t i = 0; i < size; ++i) sample[i] = magnitude_at(i * step + mix64(i) % step);
    const double share = static_cast<double>(k) / static_cast<double>(dimension);
    const double expected = share * static_cast<double>(size);
    // (a + b) / 2 >= sqrt(a * b), and the bound need not be tight: Newton's step from the variance plus one.
    double deviation = expected * (1.0 - share) + 1.0;
    const double variance = deviation;
    for (int step_count = 0; step_count < 12; ++step_count) deviation = 0.5 * (deviation + variance / deviation);
    rank = static_cast<std::size_t>(expected + 5.0 * deviation) + 3;
    if (rank >= size) return 0;
  }
  std::nth_element(sample.begin(), sample.begin() + static_cast<std::ptrdiff_t>(rank), sample.end(), std::greater{});
  return sample[rank];
}

}  // namespace gleaner::cpu
