#pragma once
// A made-up data set of noisy patterns, one per class: small, learnable, the same bytes on every machine. For tests,
// benchmarks and simulations that need no real data.

#include <cstdint>

#include "training/dataset.hpp"

namespace gleaner {

struct SyntheticSpec {
  std::uint32_t samples = 1000;
  std::uint32_t classes = 10;
  std::uint32_t height = 8;
  std::uint32_t width = 8;
  std::uint32_t noise = 160;  // a pixel is its pattern's value plus a number from -noise to noise; at most 255
  std::uint32_t channels = 1;
  std::uint32_t users = 0;  // 0: none; at most samples
};

// Labels run 0, 1, ..., classes - 1, 0, ...; the patterns depend on pattern_seed only, so that a training and a test
// set can share them. With users, each has a run of samples, about one to eight parts of all, labels drawn from a few
// classes that it prefers and all others, and a brightness of its own.
struct SyntheticSeeds {
  std::uint64_t pattern = 1;
  std::uint64_t noise = 2;
};
Dataset synthetic_dataset(const SyntheticSpec& spec, const SyntheticSeeds& seeds);

}  // namespace gleaner
