// The real data set. It comes with Debian's package dataset-fashion-mnist; without it these tests fail and say so.

#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "training/named_data.hpp"
#include "training/partition.hpp"
#include "training/trainer.hpp"

namespace gleaner {
namespace {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr std::uint32_t kTrainSamples = 15'000;
#else
constexpr std::uint32_t kTrainSamples = 60'000;
#endif
#else
constexpr std::uint32_t kTrainSamples = 60'000;
#endif

TEST(FashionMnist, LoadsBothSplits) {
  const auto train = load_named_dataset("fashion-mnist", Split::train);
  ASSERT_TRUE(train.has_value()) << train.error().message();
  EXPECT_EQ(train->samples, 60'000U);
  EXPECT_EQ(train->features, 784U);
  EXPECT_EQ(train->classes, 10U);
  std::array<int, 10> counts{};
  for (const std::uint8_t label : train->labels) ++counts.at(label);
  for (const int count : counts) EXPECT_EQ(count, 6000);
  const Standardisation measured = measure_standardisation(train->pixels);
  EXPECT_NEAR(measured.mean, train->standardisation.mean, 1e-4);
  EXPECT_NEAR(measured.deviation, train->standardisation.deviation, 1e-4);
  const auto test = load_named_dataset("fashion-mnist", Split::test);
  ASSERT_TRUE(test.has_value()) << test.error().message();
  EXPECT_EQ(test->samples, 10'000U);
}

TEST(FashionMnist, OneEpochOfTheMlpPassesEightyPercent) {
  const auto train = load_named_dataset("fashion-mnist", Split::train);
  ASSERT_TRUE(train.has_value()) << train.error().message();
  const auto test = load_named_dataset("fashion-mnist", Split::test);
  ASSERT_TRUE(test.has_value()) << test.error().message();
  Network network(*model_spec("mlp", *train));
  auto parameters = initial_parameters(network.spec(), 1);
  std::vector<std::uint32_t> samples(kTrainSamples);
  std::iota(samples.begin(), samples.end(), 0U);
  const auto result = train_local(network, *train, samples, parameters, {.epochs = 1, .batch_size = 32}, {});
  ASSERT_TRUE(result.has_value()) << result.error().message();
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= result->delta[i];
  const auto evaluation = evaluate(network, *test, parameters, 2);
  ASSERT_TRUE(evaluation.has_value()) << evaluation.error().message();
  EXPECT_GE(evaluation->accuracy, 0.80);
}

TEST(FashionMnist, DirichletLeavesNoDeviceEmpty) {
  const auto train = load_named_dataset("fashion-mnist", Split::train);
  ASSERT_TRUE(train.has_value()) << train.error().message();
  const auto partition = make_partition({.name = "dirichlet", .alpha = 0.3, .min_samples = 20}, train->labels, 1000, 1);
  ASSERT_TRUE(partition.has_value()) << partition.error().message();
  std::size_t total = 0;
  for (const auto& samples : partition->devices) {
    EXPECT_GE(samples.size(), 20U);
    total += samples.size();
  }
  EXPECT_EQ(total, 60'000U);
}

}  // namespace
}  // namespace gleaner
