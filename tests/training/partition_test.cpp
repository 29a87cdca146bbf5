#include "training/partition.hpp"

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

// Largest share of one label on a device, averaged over devices with samples: 1 is one label each.
double skew_of(const Partition& partition, const std::vector<std::uint8_t>& labels) {
  double sum = 0.0;
  std::size_t devices = 0;
  for (const auto& samples : partition.devices) {
    if (samples.empty()) continue;
    std::array<double, 256> counts{};
    for (const std::uint32_t sample : samples) counts.at(labels[sample]) += 1.0;
    sum += *std::ranges::max_element(counts) / static_cast<double>(samples.size());
    ++devices;
  }
  return sum / static_cast<double>(devices);
}

Partition partition_of(const PartitionSpec& spec, const std::vector<std::uint8_t>& labels, std::uint32_t devices,
                       std::uint64_t seed) {
  auto result = make_partition(spec, labels, devices, seed);
  EXPECT_TRUE(result.has_value()) << result.error().message();
  return *std::move(result);
}

RC_GTEST_PROP(PartitionProperty, EverySampleOnceAndTheMinimumHeld, ()) {
  const auto devices = *rc::gen::inRange<std::uint32_t>(1, 40);
  const auto minimum = *rc::gen::inRange<std::uint32_t>(0, 6);
  const auto extra = *rc::gen::inRange<std::size_t>(0, 400);
  const auto labels = *rc::gen::container<std::vector<std::uint8_t>>(std::size_t{devices} * minimum + extra,
                                                                     rc::gen::weightedOneOf<std::uint8_t>({
                                                                         {20, rc::gen::inRange<std::uint8_t>(0, 10)},
                                                                         {1, rc::gen::arbitrary<std::uint8_t>()},
                                                                     }));
  const PartitionSpec spec = {.name = *rc::gen::element<std::string>("iid", "dirichlet", "quantity"),
                              .alpha = *rc::gen::element(1e-4, 0.01, 0.1, 0.5, 10.0, 1e6),
                              .min_samples = minimum};
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const auto result = make_partition(spec, labels, devices, seed);
  RC_ASSERT(result.has_value());
  RC_ASSERT(result->devices.size() == devices);
  std::vector<std::uint32_t> seen(labels.size(), 0);
  for (const auto& samples : result->devices) {
    RC_ASSERT(samples.size() >= minimum);
    RC_ASSERT(std::ranges::is_sorted(samples));
    for (const std::uint32_t sample : samples) ++seen.at(sample);
  }
  RC_ASSERT(std::ranges::all_of(seen, [](std::uint32_t times) { return times == 1; }));
  RC_ASSERT(make_partition(spec, labels, devices, seed)->devices == result->devices);
}

TEST(Partition, IidIsEven) {
  const auto labels = round_robin_labels(1003, 10);
  const Partition partition = partition_of({.name = "iid"}, labels, 10, 3);
  for (std::size_t device = 0; device < 10; ++device) {
    EXPECT_EQ(partition.devices[device].size(), device < 3 ? 101U : 100U);
  }
  EXPECT_LT(skew_of(partition, labels), 0.25);
}

TEST(Partition, SmallAlphaIsSkewedLargeIsEven) {
  const auto labels = round_robin_labels(20'000, 10);
  const auto skew = [&](double alpha) {
    return skew_of(partition_of({.name = "dirichlet", .alpha = alpha}, labels, 20, 7), labels);
  };
  const double tiny = skew(0.01);
  const double small = skew(0.1);
  const double medium = skew(1.0);
  const double large = skew(1000.0);
  EXPECT_GT(tiny, 0.7);
  EXPECT_GT(tiny, small);
  EXPECT_GT(small, medium);
  EXPECT_GT(medium, large);
  EXPECT_LT(large, 0.12);
  for (const auto& samples : partition_of({.name = "dirichlet", .alpha = 1e6}, labels, 20, 7).devices) {
    EXPECT_NEAR(static_cast<double>(samples.size()), 1000.0, 20.0);
  }
}

TEST(Partition, SeedDecides) {
  const auto labels = round_robin_labels(500, 5);
  for (const std::string name : {"iid", "dirichlet"}) {
    const Partition one = partition_of({.name = name}, labels, 8, 1);
    EXPECT_EQ(one.digest(), partition_of({.name = name}, labels, 8, 1).digest());
    EXPECT_NE(one.digest(), partition_of({.name = name}, labels, 8, 2).digest());
  }
}

// What every machine must come to, libm and all.
TEST(Partition, GoldenDigests) {
  const auto labels = round_robin_labels(6000, 10);
  EXPECT_EQ(partition_of({.name = "iid"}, labels, 7, 42).digest().value, 0x4cfb8c51cbb8543aULL);
  EXPECT_EQ(partition_of({.name = "dirichlet", .alpha = 0.5, .min_samples = 10}, labels, 7, 42).digest().value,
            0xb4aec8b8eccf2096ULL);
  EXPECT_EQ(partition_of({.name = "dirichlet", .alpha = 0.05, .min_samples = 50}, labels, 60, 42).digest().value,
            0x3891cd122ee10e94ULL);
  EXPECT_EQ(partition_of({.name = "shards"}, labels, 60, 42).digest().value, 0xdffff860a71a70eaULL);
  EXPECT_EQ(partition_of({.name = "quantity"}, labels, 60, 42).digest().value, 0xe27a56f764a199dbULL);
}

TEST(Partition, MinimumIsTakenFromTheLargest) {
  const auto labels = round_robin_labels(300, 3);
  const Partition partition = partition_of({.name = "dirichlet", .alpha = 0.001, .min_samples = 10}, labels, 30, 5);
  for (const auto& samples : partition.devices) EXPECT_EQ(samples.size(), 10U);  // nothing to spare
}

TEST(Partition, ImpossibleMinimumSaysTheNumbers) {
  const auto labels = round_robin_labels(99, 3);
  const auto result = make_partition({.name = "dirichlet", .alpha = 0.5, .min_samples = 10}, labels, 10, 1);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), ErrorCode::bad_input);
  EXPECT_EQ(result.error().message(),
            "10 devices with at least 10 samples each need 100 samples, the data set has 99: use fewer devices or a "
            "smaller samples_min");
  EXPECT_FALSE(make_partition({.name = "iid", .min_samples = 0xffffffffU}, labels, 0xffffffffU, 1).has_value());
}

TEST(Partition, WrongSettingsAreNamed) {
  const auto labels = round_robin_labels(99, 3);
  EXPECT_EQ(make_partition({.name = "dirichlett"}, labels, 3, 1).error().message(),
            "unknown partition \"dirichlett\": there are iid, dirichlet, shards, quantity and natural; did you mean "
            "dirichlet?");
  EXPECT_EQ(make_partition({.name = "iid"}, labels, 0, 1).error().message(), "a partition needs at least one device");
  for (const double alpha : {0.0, -1.0, 1e-5, 1e7, std::nan(""), HUGE_VAL}) {
    const auto result = make_partition({.name = "dirichlet", .alpha = alpha}, labels, 3, 1);
    ASSERT_FALSE(result.has_value());
    EXPECT_NE(result.error().message().find("partition alpha is"), std::string::npos);
  }
}

TEST(Partition, ShardsGiveADeviceFewLabels) {
  const auto labels = round_robin_labels(6'000, 10);
  const Partition partition = partition_of({.name = "shards", .shards_per_device = 2}, labels, 100, 7);
  std::vector<std::uint32_t> all;
  for (const auto& samples : partition.devices) {
    EXPECT_EQ(samples.size(), 60U);
    std::array<bool, 10> has{};
    for (const std::uint32_t sample : samples) has.at(labels[sample]) = true;
    EXPECT_LE(std::ranges::count(has, true), 2);  // 200 shards of 30: none lies across labels
    all.insert(all.end(), samples.begin(), samples.end());
  }
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
  EXPECT_EQ(all.size(), labels.size());
  EXPECT_NE(partition.digest(), partition_of({.name = "shards"}, labels, 100, 8).digest());
}

TEST(Partition, ShardsOfUnevenDataDifferByOne) {
  const auto labels = round_robin_labels(1'003, 10);
  const Partition partition = partition_of({.name = "shards", .min_samples = 1, .shards_per_device = 3}, labels, 11, 7);
  std::size_t sum = 0;
  for (const auto& samples : partition.devices) {
    EXPECT_NEAR(static_cast<double>(samples.size()), 1003.0 / 11, 3.0);
    sum += samples.size();
  }
  EXPECT_EQ(sum, 1'003U);
  EXPECT_EQ(
      make_partition({.name = "shards", .shards_per_device = 10}, labels, 101, 7).error().message(),
      "101 devices with 10 shards each need 1010 samples, the data set has 1003: use fewer devices or fewer shards");
  EXPECT_FALSE(make_partition({.name = "shards", .shards_per_device = 0}, labels, 10, 7).has_value());
}

TEST(Partition, QuantityIsSkewedInSizeOnly) {
  const auto labels = round_robin_labels(60'000, 10);
  const Partition partition = partition_of({.name = "quantity", .min_samples = 5, .size_sigma = 1.5}, labels, 200, 7);
  std::vector<std::size_t> sizes;
  for (const auto& samples : partition.devices) sizes.push_back(samples.size());
  std::ranges::sort(sizes);
  EXPECT_LT(sizes[100], 200U);  // the mean is 300
  EXPECT_GT(sizes[199], 1'500U);
  EXPECT_GE(sizes[0], 5U);
  EXPECT_LT(skew_of(partition, labels), 0.3);
  for (const double sigma : {-0.1, 4.1, std::nan("")}) {
    EXPECT_FALSE(make_partition({.name = "quantity", .size_sigma = sigma}, labels, 10, 7).has_value());
  }
  for (const auto& samples : partition_of({.name = "quantity", .size_sigma = 0.0}, labels, 200, 7).devices) {
    EXPECT_EQ(samples.size(), 300U);
  }
}

TEST(Partition, NaturalIsAUserADevice) {
  const std::vector<std::uint8_t> labels = {0, 1, 2, 0, 1, 2, 0, 1};
  const std::vector<std::uint32_t> users = {0, 2, 0, 1, 2, 3, 3, 3};
  const PartitionData data(labels, users);
  const auto all = make_partition({.name = "natural"}, data, 4, 1);
  ASSERT_TRUE(all.has_value()) << all.error().message();
  EXPECT_EQ(all->devices, (std::vector<std::vector<std::uint32_t>>{{0, 2}, {3}, {1, 4}, {5, 6, 7}}));
  const auto large = make_partition({.name = "natural", .min_samples = 2}, data, 3, 1);
  EXPECT_EQ(large->devices, (std::vector<std::vector<std::uint32_t>>{{0, 2}, {1, 4}, {5, 6, 7}}));
  EXPECT_EQ(make_partition({.name = "natural", .min_samples = 2}, data, 4, 1).error().message(),
            "partition natural: 4 devices, but 3 users with at least 2 samples: use fewer devices or a smaller "
            "samples_min");
  // Fewer devices than users: which ones is drawn.
  std::set<std::size_t> seen;
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    seen.insert(make_partition({.name = "natural"}, data, 1, seed)->devices[0].size());
  EXPECT_EQ(seen, (std::set<std::size_t>{1, 2, 3}));
  EXPECT_NE(make_partition({.name = "natural"}, labels, 1, 1).error().message().find("a data set with users"),
            std::string::npos);
}

TEST(Partition, TableShowsTheSplit) {
  const std::vector<std::uint8_t> labels = {0, 1, 1, 2};
  const Partition partition = {{{0, 1}, {2, 3}}};
  EXPECT_EQ(partition_table(partition, labels),
            "  device   samples      0      1      2\n"
            "       0         2      1      1      0\n"
            "       1         2      0      1      1\n");
}

}  // namespace
}  // namespace gleaner
