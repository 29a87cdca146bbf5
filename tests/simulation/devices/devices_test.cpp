#include "simulation/devices/devices.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace gleaner::simulation {
namespace {

using testing::HasSubstr;

std::unique_ptr<Devices> make(const DeviceSettings& settings, std::uint64_t seed = 1) {
  auto devices = make_devices(settings, seed);
  if (!devices) {
    ADD_FAILURE() << devices.error().message();
    return nullptr;
  }
  return std::move(*devices);
}

TEST(Devices, ConstantOnesAreAllAlike) {
  const auto devices = make({.profile = "constant",
                             .samples_per_s = 80.0,
                             .uplink_kbit_per_s = 8.0,
                             .downlink_kbit_per_s = 16.0,
                             .link = {.latency = std::chrono::milliseconds(7), .jitter = 0.3, .loss = 0.01}});
  for (const std::uint32_t device : {0U, 999'999U}) {
    const DeviceTraits traits = devices->traits(device);
    EXPECT_EQ(traits.samples_per_s, 80.0);
    EXPECT_EQ(traits.uplink_bytes_per_s, 1'000.0);
    EXPECT_EQ(traits.downlink_bytes_per_s, 2'000.0);
    EXPECT_EQ(traits.latency, std::chrono::milliseconds(7));
    EXPECT_EQ(traits.jitter, 0.3);
    EXPECT_EQ(traits.loss, 0.01);
  }
}

DeviceSettings two_classes() {
  return {.profile = "lognormal",
          .classes = {{.name = "slow",
                       .share = 3.0,
                       .samples_per_s = {10.0, 0.5},
                       .uplink_kbit_per_s = {100.0, 1.0},
                       .downlink_kbit_per_s = {400.0, 0.0}},
                      {.name = "fast",
                       .share = 1.0,
                       .samples_per_s = {10'000.0, 0.1},
                       .uplink_kbit_per_s = {1e6, 0.0},
                       .downlink_kbit_per_s = {1e6, 0.0}}}};
}

TEST(Devices, LognormalClassesHaveTheirSharesMediansAndSpreads) {
  const auto devices = make(two_classes());
  std::vector<double> slow_logs;
  std::uint32_t fast = 0;
  constexpr std::uint32_t kDevices = 20'000;
  for (std::uint32_t i = 0; i < kDevices; ++i) {
    const DeviceTraits traits = devices->traits(i);
    if (traits.samples_per_s > 1'000.0) {
      ++fast;
      EXPECT_EQ(traits.uplink_bytes_per_s, 1e6 * 125.0);
    } else {
      EXPECT_EQ(traits.downlink_bytes_per_s, 50'000.0);
      slow_logs.push_back(std::log(traits.uplink_bytes_per_s / 12'500.0));
    }
  }
  EXPECT_NEAR(fast, kDevices / 4.0, 300.0);
  double squares = 0.0;
  for (const double x : slow_logs) squares += x * x;
  EXPECT_NEAR(squares / static_cast<double>(slow_logs.size()), 1.0, 0.05);
  std::ranges::nth_element(slow_logs, slow_logs.begin() + static_cast<std::ptrdiff_t>(slow_logs.size() / 2));
  EXPECT_NEAR(slow_logs[slow_logs.size() / 2], 0.0, 0.03);
}

TEST(Devices, TraitsAreAFunctionOfSeedAndIndex) {
  const auto one = make(two_classes(), 5);
  const auto same = make(two_classes(), 5);
  const auto other = make(two_classes(), 6);
  std::uint32_t differing = 0;
  for (std::uint32_t i = 100; i > 0; --i) static_cast<void>(same->traits(i));  // in whatever order
  for (std::uint32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(one->traits(i).samples_per_s, same->traits(i).samples_per_s);
    EXPECT_EQ(one->traits(i).uplink_bytes_per_s, same->traits(i).uplink_bytes_per_s);
    differing += one->traits(i).samples_per_s != other->traits(i).samples_per_s ? 1U : 0U;
  }
  EXPECT_GT(differing, 95U);
}

// The very bits, as an independent computation has them: another machine must not have other devices.
TEST(Devices, ADeviceIsTheSameEverywhere) {
  const auto devices = make(two_classes());
  EXPECT_EQ(devices->traits(0).samples_per_s, 0x1.08fed4bca04ecp+5);
  EXPECT_EQ(devices->traits(0).uplink_bytes_per_s, 0x1.5ca48bd97c6e9p+8 * 125.0);
  EXPECT_EQ(devices->traits(1).samples_per_s, 0x1.69f3fcc7bcb48p+3);
  EXPECT_EQ(devices->traits(999'999).samples_per_s, 0x1.2c75229b2d18ep+13);
}

TEST(Devices, AnotherSpreadOfOneRateLeavesTheOthersAlone) {
  DeviceSettings changed = two_classes();
  changed.classes[0].samples_per_s.sigma = 0.0;
  const auto one = make(two_classes());
  const auto other = make(changed);
  for (std::uint32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(one->traits(i).uplink_bytes_per_s, other->traits(i).uplink_bytes_per_s);
  }
}

TEST(Devices, UnknownNamesAreRefused) {
  const auto profile = make_devices({.profile = "fast"}, 1);
  ASSERT_FALSE(profile);
  EXPECT_THAT(profile.error().message(), HasSubstr("\"fast\""));
  const auto availability = make_devices({.availability = "often"}, 1);
  ASSERT_FALSE(availability);
  EXPECT_EQ(availability.error().code(), ErrorCode::bad_input);
}

}  // namespace
}  // namespace gleaner::simulation
