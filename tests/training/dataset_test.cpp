#include "training/dataset.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "training/synthetic.hpp"

namespace gleaner {
namespace {

Dataset small() { return synthetic_dataset({.samples = 30, .classes = 3, .height = 4, .width = 5, .noise = 40}, {}); }

TEST(Dataset, StandardisationIsMeasuredFromAllBytes) {
  const std::vector<std::uint8_t> pixels = {0, 255, 255, 0, 51, 204};
  const Standardisation measured = measure_standardisation(pixels);
  EXPECT_DOUBLE_EQ(measured.mean, 0.5);
  EXPECT_NEAR(measured.deviation, std::sqrt((4 * 0.25 + 2 * 0.09) / 6), 1e-12);
}

TEST(Dataset, EqualBytesHaveDeviationOne) {
  const std::vector<std::uint8_t> pixels(10, 7);
  EXPECT_EQ(measure_standardisation(pixels).deviation, 1.0);
  EXPECT_EQ(measure_standardisation({}).deviation, 1.0);
}

TEST(Dataset, GatherStandardises) {
  Dataset dataset = small();
  dataset.standardisation = {0.25, 0.5};
  GatheredBatch batch;
  const std::vector<std::uint32_t> samples = {29, 0, 7, 7};
  gather(dataset, samples, batch);
  ASSERT_EQ(batch.inputs.size(), 80U);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    EXPECT_EQ(batch.labels[i], dataset.labels[samples[i]]);
    for (std::size_t f = 0; f < 20; ++f) {
      const double pixel = dataset.pixels_of(samples[i])[f];
      ASSERT_NEAR(double{batch.inputs[i * 20 + f]}, (pixel / 255.0 - 0.25) / 0.5, 1e-6);
    }
  }
  gather(dataset, std::span(samples).first(1), batch);
  EXPECT_EQ(batch.inputs.size(), 20U);
  EXPECT_EQ(batch.labels.size(), 1U);
}

TEST(Dataset, SubsetIsACopyThatTrainsTheSame) {
  const Dataset dataset = small();
  const std::vector<std::uint32_t> chosen = {5, 2, 28};
  const Dataset mine = subset(dataset, chosen);
  EXPECT_EQ(mine.samples, 3U);
  EXPECT_EQ(mine.features, dataset.features);
  EXPECT_EQ(mine.classes, dataset.classes);
  EXPECT_EQ(mine.height, 4U);
  EXPECT_EQ(mine.pixels.size(), 60U);
  GatheredBatch whole;
  GatheredBatch own;
  gather(dataset, chosen, whole);
  const std::vector<std::uint32_t> all = {0, 1, 2};
  gather(mine, all, own);
  EXPECT_EQ(whole.inputs, own.inputs);
  EXPECT_EQ(whole.labels, own.labels);
}

TEST(Dataset, SyntheticRepeatsAndSharesPatterns) {
  const SyntheticSpec spec = {.samples = 12, .classes = 4, .height = 3, .width = 3, .noise = 0};
  const Dataset one = synthetic_dataset(spec, {.pattern = 1, .noise = 2});
  EXPECT_EQ(one.pixels, synthetic_dataset(spec, {.pattern = 1, .noise = 9}).pixels);
  EXPECT_NE(one.pixels, synthetic_dataset(spec, {.pattern = 3, .noise = 2}).pixels);
  EXPECT_EQ(one.labels, (std::vector<std::uint8_t>{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}));
}

}  // namespace
}  // namespace gleaner
