#pragma once
// Labelled samples in memory: one byte a feature, made into floats only while a batch is gathered. A device keeps a
// subset() with its own samples and nothing else. Plain values; reading from several threads is safe.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gleaner {

struct DatasetShape {
  std::uint32_t features = 0;  // height x width x channels; the channel runs fastest
  std::uint32_t classes = 0;   // at most 256
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::uint32_t channels = 0;

  friend bool operator==(const DatasetShape&, const DatasetShape&) = default;
};

// A byte b becomes (b / 255 - mean) / deviation. Every device of a run must use the same pair, or they train on
// different inputs.
struct Standardisation {
  double mean = 0.0;
  double deviation = 1.0;
};

enum class Split { train, test };

struct Dataset : DatasetShape {
  std::uint32_t samples = 0;
  Standardisation standardisation;
  std::vector<std::uint8_t> pixels;  // samples x features
  std::vector<std::uint8_t> labels;  // samples, each below classes
  // Of data that people wrote, whose each sample is: an index into user_names. Empty where the data does not say.
  std::vector<std::uint32_t> users;
  std::vector<std::string> user_names;

  std::span<const std::uint8_t> pixels_of(std::uint32_t sample) const {
    return std::span(pixels).subspan(std::size_t{sample} * features, features);
  }
};

// Mean and deviation over all bytes, from exact integer sums: the same on every machine. Deviation 1 where all bytes
// are equal.
Standardisation measure_standardisation(std::span<const std::uint8_t> pixels);

// A copy of the named samples, in that order, without their users; sample i of the result is samples[i] of the source.
// Every index must be below dataset.samples.
Dataset subset(const Dataset& dataset, std::span<const std::uint32_t> samples);

// A batch as a network reads it; reuse one object to reuse its memory.
struct GatheredBatch {
  std::vector<float> inputs;         // batch x features, standardised
  std::vector<std::uint8_t> labels;  // batch
};
void gather(const Dataset& dataset, std::span<const std::uint32_t> samples, GatheredBatch& out);

}  // namespace gleaner
