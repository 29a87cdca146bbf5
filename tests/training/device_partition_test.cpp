#include "training/device_partition.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

namespace gleaner {
namespace {

std::vector<std::uint8_t> round_robin_labels(std::size_t samples, std::size_t classes) {
  std::vector<std::uint8_t> labels;
  for (std::size_t i = 0; i < samples; ++i) labels.push_back(static_cast<std::uint8_t>(i % classes));
  return labels;
}

std::unique_ptr<const DevicePartition> made(const PartitionSpec& spec, const PartitionData& data, std::uint32_t devices,
                                            std::uint64_t seed) {
  auto result = make_device_partition(spec, data, devices, seed);
  EXPECT_TRUE(result.has_value()) << result.error().message();
  return *std::move(result);
}

std::string refusal(const PartitionSpec& spec, const PartitionData& data, std::uint32_t devices) {
  const auto result = make_device_partition(spec, data, devices, 1);
  EXPECT_FALSE(result.has_value());
  return result ? "" : result.error().message();
}

std::size_t kinds_of(const std::vector<std::uint32_t>& samples, const std::vector<std::uint8_t>& labels) {
  std::set<std::uint8_t> kinds;
  for (const std::uint32_t sample : samples) kinds.insert(labels.at(sample));
  return kinds.size();
}

TEST(DevicePartition, ATableSaysWhatThePartitionSays) {
  const auto labels = round_robin_labels(500, 10);
  for (const std::string name : {"iid", "dirichlet", "shards", "quantity"}) {
    const PartitionSpec spec = {.name = name, .min_samples = 2};
    const auto lists = make_partition(spec, labels, 20, 5)->devices;
    const auto table = made(spec, labels, 20, 5);
    ASSERT_EQ(table->devices(), 20U);
    for (std::uint32_t device = 0; device < 20; ++device) {
      EXPECT_EQ(table->samples_of(device), lists[device]) << name;
      EXPECT_EQ(table->count_of(device), lists[device].size());
    }
  }
}

RC_GTEST_PROP(DevicePartitionProperty, DrawnSamplesAreDistinctAndCounted, ()) {
  const auto size = *rc::gen::inRange<std::size_t>(1, 300);
  const auto labels = *rc::gen::container<std::vector<std::uint8_t>>(size, rc::gen::inRange<std::uint8_t>(0, 7));
  const auto each = *rc::gen::inRange<std::uint32_t>(1, static_cast<std::uint32_t>(size) + 1);
  const PartitionSpec spec = {.name = *rc::gen::element<std::string>("iid", "dirichlet", "shards", "quantity"),
                              .alpha = *rc::gen::element(1e-4, 0.1, 1.0, 1e6),
                              .min_samples = *rc::gen::inRange<std::uint32_t>(1, each + 1),
                              .shards_per_device = *rc::gen::inRange<std::uint32_t>(1, each + 1),
                              .size_sigma = *rc::gen::element(0.0, 0.5, 4.0),
                              .samples_per_device = each};
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  constexpr std::uint32_t kDevices = 1'000'000;
  const auto result = make_device_partition(spec, labels, kDevices, seed);
  RC_ASSERT(result.has_value());
  const auto device = *rc::gen::inRange<std::uint32_t>(0, kDevices);
  const auto samples = (*result)->samples_of(device);
  RC_ASSERT((*result)->count_of(device) == samples.size());
  RC_ASSERT(std::ranges::adjacent_find(samples, std::greater_equal<>()) == samples.end());
  RC_ASSERT(!samples.empty() && samples.back() < size);
  if (spec.name == "iid" || spec.name == "dirichlet") RC_ASSERT(samples.size() == each);
  if (spec.name != "shards") RC_ASSERT(samples.size() >= spec.min_samples);
  // Whoever asks, in whatever order.
  RC_ASSERT((*make_device_partition(spec, labels, kDevices, seed))->samples_of(device) == samples);
}

TEST(DrawnPartition, EverySampleIsAsLikely) {
  const auto labels = round_robin_labels(50, 5);
  const auto drawn = made({.name = "iid", .samples_per_device = 10}, labels, 10'000, 3);
  std::vector<double> counts(50, 0.0);
  for (std::uint32_t device = 0; device < 10'000; ++device) {
    for (const std::uint32_t sample : drawn->samples_of(device)) counts.at(sample) += 1.0;
  }
  double chi_square = 0.0;
  for (const double count : counts) chi_square += (count - 2000.0) * (count - 2000.0) / 2000.0;
  EXPECT_LT(chi_square, 85.0);  // 49 degrees of freedom: one in a thousand would be above
}

TEST(DrawnPartition, DirichletIsSkewedPerDeviceAndEvenOverAll) {
  const auto labels = round_robin_labels(5'000, 10);
  const auto mean_kinds = [&](double alpha) {
    const auto drawn = made({.name = "dirichlet", .alpha = alpha, .samples_per_device = 50}, labels, 1000, 3);
    double sum = 0.0;
    std::array<double, 10> totals{};
    for (std::uint32_t device = 0; device < 1000; ++device) {
      const auto samples = drawn->samples_of(device);
      sum += static_cast<double>(kinds_of(samples, labels));
      for (const std::uint32_t sample : samples) totals.at(labels[sample]) += 1.0;
    }
    for (const double total : totals) EXPECT_NEAR(total, 5000.0, 1500.0) << alpha;
    return sum / 1000.0;
  };
  EXPECT_LT(mean_kinds(0.01), 1.5);
  EXPECT_LT(mean_kinds(0.1), 4.0);
  EXPECT_GT(mean_kinds(1.0), 6.0);
  EXPECT_GT(mean_kinds(1000.0), 9.7);
}

// Alpha wants one label, which has ten samples only.
TEST(DrawnPartition, WhatALabelCannotGiveComesFromOthers) {
  const auto labels = round_robin_labels(100, 10);
  const auto drawn = made({.name = "dirichlet", .alpha = 1e-4, .samples_per_device = 95}, labels, 50, 3);
  for (std::uint32_t device = 0; device < 50; ++device) EXPECT_EQ(drawn->samples_of(device).size(), 95U);
}

TEST(DrawnPartition, ShardsHaveFewLabels) {
  const auto labels = round_robin_labels(6'000, 10);
  const auto drawn = made({.name = "shards", .shards_per_device = 2, .samples_per_device = 50}, labels, 1'000'000, 3);
  for (const std::uint32_t device : {0U, 1U, 77'777U, 999'999U}) {
    const auto samples = drawn->samples_of(device);
    EXPECT_EQ(samples.size(), 50U);
    EXPECT_LE(kinds_of(samples, labels), 4U);  // a shard may lie across two labels
  }
  EXPECT_NE(drawn->samples_of(0), drawn->samples_of(1));
}

TEST(DrawnPartition, QuantityHasTheMeanAndTheSpread) {
  const auto labels = round_robin_labels(60'000, 10);
  const auto drawn = made({.name = "quantity", .size_sigma = 1.0, .samples_per_device = 50}, labels, 1'000'000, 3);
  double sum = 0.0;
  std::vector<std::uint32_t> counts;
  for (std::uint32_t device = 0; device < 20'000; ++device) counts.push_back(drawn->count_of(device));
  for (const std::uint32_t count : counts) sum += count;
  EXPECT_NEAR(sum / 20'000.0, 50.0, 2.0);
  std::ranges::sort(counts);
  EXPECT_NEAR(counts[10'000], 50.0 * std::exp(-0.5), 1.5);
  EXPECT_GT(counts.back(), 400U);
  const auto even = made({.name = "quantity", .size_sigma = 0.0, .samples_per_device = 50}, labels, 10, 3);
  for (std::uint32_t device = 0; device < 10; ++device) EXPECT_EQ(even->count_of(device), 50U);
}

TEST(DrawnPartition, WhatCannotBeIsSaid) {
  const auto labels = round_robin_labels(60, 3);
  const std::vector<std::uint32_t> users(60, 0);
  EXPECT_EQ(refusal({.name = "iid", .samples_per_device = 61}, labels, 5),
            "every device draws 61 samples, the data set has 60: ask for fewer");
  EXPECT_EQ(refusal({.name = "iid", .min_samples = 61, .samples_per_device = 1}, labels, 5),
            "every device draws 61 samples, the data set has 60: ask for fewer");
  EXPECT_EQ(refusal({.name = "natural", .samples_per_device = 5}, {labels, users}, 1),
            "partition natural has its users' numbers of samples: leave samples_per_device out");
  EXPECT_EQ(refusal({.name = "shards", .shards_per_device = 9, .samples_per_device = 8}, labels, 1),
            "partition shards: 8 samples a device are no 9 shards");
  EXPECT_EQ(refusal({.name = "iid", .samples_per_device = 5}, labels, 0), "a partition needs at least one device");
  EXPECT_NE(refusal({.name = "idd", .samples_per_device = 5}, labels, 1).find("did you mean iid?"), std::string::npos);
  EXPECT_NE(refusal({.name = "iid", .samples_per_device = 5}, std::vector<std::uint8_t>(), 1).find("has 0"),
            std::string::npos);
}

TEST(DevicePartitionTable, FewDevicesHaveARowEach) {
  const std::vector<std::uint8_t> labels = {0, 1, 1, 2};
  const auto text = partition_table(*made({.name = "iid", .samples_per_device = 4}, labels, 2, 1), labels);
  EXPECT_EQ(text,
            "  device   samples      0      1      2\n"
            "       0         4      1      2      1\n"
            "       1         4      1      2      1\n"
            "2 devices over 4 samples\n"
            "                       least    median      most\n"
            "           samples         4         4         4\n"
            "           classes         3         3         3\n");
}

TEST(DevicePartitionTable, ManyDevicesAreSummedUp) {
  const auto labels = round_robin_labels(6'000, 10);
  const auto text =
      partition_table(*made({.name = "quantity", .samples_per_device = 20}, labels, 1'000'000, 1), labels);
  EXPECT_TRUE(text.starts_with("1000000 devices over 6000 samples, 10000 of them looked at\n")) << text;
  EXPECT_EQ(std::ranges::count(text, '\n'), 4);
}

}  // namespace
}  // namespace gleaner
