#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "simulation/devices/devices.hpp"

namespace gleaner::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

DeviceTraits plain() {
  return {.samples_per_s = 250.0,
          .uplink_bytes_per_s = 1'000.0,
          .downlink_bytes_per_s = 4'000.0,
          .latency = milliseconds(20)};
}

TEST(Durations, TransferIsBytesOverRateAndOneLatency) {
  EXPECT_EQ(transfer_time(plain(), 2'000, Direction::up, {}), seconds(2) + milliseconds(20));
  EXPECT_EQ(transfer_time(plain(), 2'000, Direction::down, {}), milliseconds(520));
  EXPECT_EQ(transfer_time(plain(), 0, Direction::down, {}), milliseconds(20));
  DeviceTraits odd = plain();
  odd.uplink_bytes_per_s = 3.0;
  odd.latency = {};
  EXPECT_EQ(transfer_time(odd, 2, Direction::up, {}), nanoseconds(666'666'667));
}

TEST(Durations, ComputingIsSamplesOverRate) {
  EXPECT_EQ(compute_time(plain(), 500), seconds(2));
  EXPECT_EQ(compute_time(plain(), 0), seconds(0));
}

TEST(Durations, NothingLastsForEver) {
  DeviceTraits slow = plain();
  slow.uplink_bytes_per_s = 1e-300;
  slow.samples_per_s = 1e-300;
  const Duration ten_years = std::chrono::hours(24 * 3650);
  EXPECT_EQ(transfer_time(slow, 1, Direction::up, {}), ten_years);
  EXPECT_EQ(compute_time(slow, ~0ULL), ten_years);
}

RC_GTEST_PROP(Durations, JitterStaysWithinItsShareAndRepeats, (std::uint64_t seed, std::uint32_t device)) {
  DeviceTraits traits = plain();
  traits.jitter = 0.25;
  const TransferDraw draw{.seed = seed, .device = device, .transfer = *rc::gen::inRange(0ULL, 1ULL << 62)};
  const Duration time = transfer_time(traits, 4'000, Direction::up, draw) - traits.latency;
  RC_ASSERT(time >= seconds(3) && time <= seconds(5));
  RC_ASSERT(time == transfer_time(traits, 4'000, Direction::up, draw) - traits.latency);
}

TEST(Durations, JitterDiffersByDeviceTransferAndDirection) {
  DeviceTraits traits = plain();
  traits.jitter = 0.5;
  traits.downlink_bytes_per_s = traits.uplink_bytes_per_s;
  const TransferDraw draw{.seed = 1, .device = 2, .transfer = 3};
  const Duration one = transfer_time(traits, 10'000, Direction::up, draw);
  EXPECT_NE(one, transfer_time(traits, 10'000, Direction::down, draw));
  EXPECT_NE(one, transfer_time(traits, 10'000, Direction::up, {.seed = 1, .device = 3, .transfer = 3}));
  EXPECT_NE(one, transfer_time(traits, 10'000, Direction::up, {.seed = 1, .device = 2, .transfer = 4}));
  EXPECT_NE(one, transfer_time(traits, 10'000, Direction::up, {.seed = 9, .device = 2, .transfer = 3}));
}

TEST(Durations, AverageJitterIsNone) {
  DeviceTraits traits = plain();
  traits.jitter = 0.9;
  traits.latency = {};
  double sum = 0.0;
  constexpr std::uint32_t kDraws = 20'000;
  for (std::uint32_t i = 0; i < kDraws; ++i) {
    sum += to_seconds(transfer_time(traits, 1'000, Direction::up, {.seed = 5, .device = i, .transfer = 0}));
  }
  EXPECT_NEAR(sum / kDraws, 1.0, 0.015);
}

// Lost segments from the time that they take: each 1460 bytes and one round trip.
double mean_lost(double loss, std::uint64_t segments, double& squares) {
  DeviceTraits traits = plain();
  traits.loss = loss;
  double sum = 0.0;
  squares = 0.0;
  constexpr std::uint32_t kDraws = 4'000;
  const Duration whole = transfer_time(plain(), segments * 1460, Direction::up, {});
  const double each = 1.46 + 0.04;
  for (std::uint32_t i = 0; i < kDraws; ++i) {
    const Duration time =
        transfer_time(traits, segments * 1460, Direction::up, {.seed = 3, .device = i, .transfer = 1});
    const double lost = to_seconds(time - whole) / each;
    EXPECT_NEAR(lost, std::round(lost), 1e-6);
    sum += lost;
    squares += lost * lost;
  }
  squares = squares / kDraws - (sum / kDraws) * (sum / kDraws);
  return sum / kDraws;
}

TEST(Durations, LostSegmentsAreBinomial) {
  for (const double loss : {0.01, 0.25, 0.7}) {
    for (const std::uint64_t segments : {1ULL, 63ULL, 64ULL, 65ULL, 200ULL}) {
      double variance = 0.0;
      const double mean = mean_lost(loss, segments, variance);
      const double expected = loss * static_cast<double>(segments);
      const double spread = expected * (1.0 - loss);
      EXPECT_NEAR(mean, expected, 5.0 * std::sqrt(spread / 4'000.0)) << loss << " of " << segments;
      EXPECT_NEAR(variance, spread, 0.12 * spread + 0.01) << loss << " of " << segments;
    }
  }
}

// The very nanosecond, as an independent computation has it: jitter, and two of three segments lost.
TEST(Durations, ATransferIsTheSameEverywhere) {
  DeviceTraits traits = plain();
  traits.jitter = 0.25;
  traits.loss = 0.3;
  EXPECT_EQ(transfer_time(traits, 4'000, Direction::up, {.seed = 3, .device = 5, .transfer = 7}),
            nanoseconds(7'942'803'723));
}

TEST(Durations, PlansAreDroppedAtTheirRate) {
  DeviceTraits traits = plain();
  EXPECT_FALSE(drops_plan(traits, {.seed = 1, .device = 1, .plan = 1}));
  traits.failure_rate = 0.2;
  std::uint32_t dropped = 0;
  for (std::uint32_t plan = 0; plan < 10'000; ++plan) {
    dropped += drops_plan(traits, {.seed = 1, .device = plan % 7, .plan = plan}) ? 1U : 0U;
  }
  EXPECT_NEAR(dropped, 2'000, 200);
}

}  // namespace
}  // namespace gleaner::simulation
