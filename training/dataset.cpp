#include "training/dataset.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/check.hpp"

namespace gleaner {
namespace {

void prefetch(std::span<const std::uint8_t> bytes) {
  constexpr std::size_t kCacheLineBytes = 64;
  for (std::size_t at = 0; at < bytes.size(); at += kCacheLineBytes) __builtin_prefetch(&bytes[at]);
}

}  // namespace

Standardisation measure_standardisation(std::span<const std::uint8_t> pixels) {
  if (pixels.empty()) return {};
  std::array<std::uint64_t, 256> counts{};
  for (const std::uint8_t pixel : pixels) ++counts[pixel];
  std::uint64_t sum = 0;
  std::uint64_t squares = 0;
  for (std::uint64_t value = 0; value < counts.size(); ++value) {
    sum += value * counts[value];
    squares += value * value * counts[value];
  }
  const double size = static_cast<double>(pixels.size());
  const double mean = static_cast<double>(sum) / size;
  const double variance = static_cast<double>(squares) / size - mean * mean;
  return {mean / 255.0, variance > 0.0 ? std::sqrt(variance) / 255.0 : 1.0};
}

Dataset subset(const Dataset& dataset, std::span<const std::uint32_t> samples) {
  Dataset result;
  static_cast<DatasetShape&>(result) = dataset;
  result.standardisation = dataset.standardisation;
  result.samples = static_cast<std::uint32_t>(samples.size());
  result.pixels.reserve(samples.size() * dataset.features);
  result.labels.reserve(samples.size());
  for (const std::uint32_t sample : samples) {
    GLEANER_CHECK(sample < dataset.samples);
    const auto pixels = dataset.pixels_of(sample);
    result.pixels.insert(result.pixels.end(), pixels.begin(), pixels.end());
    result.labels.push_back(dataset.labels[sample]);
  }
  return result;
}

void gather(const Dataset& dataset, std::span<const std::uint32_t> samples, GatheredBatch& out) {
  const auto scale = static_cast<float>(1.0 / (255.0 * dataset.standardisation.deviation));
  const auto shift = static_cast<float>(-dataset.standardisation.mean / dataset.standardisation.deviation);
  out.inputs.resize(samples.size() * dataset.features);
  out.labels.resize(samples.size());
  float* to = out.inputs.data();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    GLEANER_CHECK(samples[i] < dataset.samples);
    // Shuffled samples lie anywhere in memory: ask for the next one while this one is converted.
    if (i + 1 < samples.size() && samples[i + 1] < dataset.samples) prefetch(dataset.pixels_of(samples[i + 1]));
    const auto pixels = dataset.pixels_of(samples[i]);
    to = std::transform(pixels.begin(), pixels.end(), to,
                        [=](std::uint8_t pixel) { return static_cast<float>(pixel) * scale + shift; });
    out.labels[i] = dataset.labels[samples[i]];
  }
}

}  // namespace gleaner
