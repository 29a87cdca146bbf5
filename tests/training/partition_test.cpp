#include "training/partition.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

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
  const PartitionSpec spec = {.name = *rc::gen::element<std::string>("iid", "dirichlet"),
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
            "unknown partition \"dirichlett\": there are iid and dirichlet; did you mean dirichlet?");
  EXPECT_EQ(make_partition({.name = "iid"}, labels, 0, 1).error().message(), "a partition needs at least one device");
  for (const double alpha : {0.0, -1.0, 1e-5, 1e7, std::nan(""), HUGE_VAL}) {
    const auto result = make_partition({.name = "dirichlet", .alpha = alpha}, labels, 3, 1);
    ASSERT_FALSE(result.has_value());
    EXPECT_NE(result.error().message().find("partition alpha is"), std::string::npos);
  }
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
