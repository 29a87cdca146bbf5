#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "simulation/devices/devices.hpp"

namespace gleaner::simulation {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

std::unique_ptr<Devices> make(const DeviceSettings& settings, std::uint64_t seed = 1) {
  auto devices = make_devices(settings, seed);
  if (!devices) {
    ADD_FAILURE() << devices.error().message();
    return nullptr;
  }
  return std::move(*devices);
}

DeviceSettings periodic(double share) { return {.availability = "periodic", .period = hours(10), .on_share = share}; }
DeviceSettings exponential() {
  return {.availability = "exponential", .mean_on = minutes(30), .mean_off = minutes(90)};
}

// Follows one device from promise to promise; the time that it was on.
Duration time_on(const Devices& devices, std::uint32_t device, Duration until, std::uint32_t& changes) {
  Duration on{};
  bool was_reachable = false;
  for (Instant t{}; t < Instant{until};) {
    const Availability now = devices.availability(device, t);
    EXPECT_TRUE(now.until.has_value());
    EXPECT_GT(*now.until, t);
    const Instant end = std::min(*now.until, Instant{until});
    if (now.reachable) on += end - t;
    changes += now.reachable != was_reachable ? 1U : 0U;
    was_reachable = now.reachable;
    t = end;
  }
  return on;
}

TEST(Availability, AlwaysMeansForEver) {
  const auto devices = make({});
  EXPECT_TRUE(devices->availability(3, {hours(1)}).reachable);
  EXPECT_FALSE(devices->availability(3, {hours(1)}).until.has_value());
  EXPECT_FALSE(make(periodic(1.0))->availability(3, {hours(1)}).until.has_value());
}

TEST(Availability, PeriodicDevicesAreOnForTheirShareOfEveryPeriod) {
  const auto devices = make(periodic(0.25));
  for (std::uint32_t device = 0; device < 50; ++device) {
    std::uint32_t changes = 0;
    EXPECT_EQ(time_on(*devices, device, hours(40), changes), hours(10)) << device;
  }
}

TEST(Availability, PhasesAreSpreadOverThePeriod) {
  const auto devices = make(periodic(0.25));
  for (const Instant t : {Instant{}, Instant{hours(3)}, Instant{hours(1'234'567)}}) {
    std::uint32_t on = 0;
    for (std::uint32_t device = 0; device < 4'000; ++device) on += devices->availability(device, t).reachable ? 1U : 0U;
    EXPECT_NEAR(on, 1'000, 130);
  }
}

// Whatever is promised holds at every moment of it, whenever one asks.
RC_GTEST_PROP(Availability, PromisesHold, (std::uint64_t seed, std::uint32_t device)) {
  const auto devices = make(*rc::gen::arbitrary<bool>() ? exponential() : periodic(0.4), seed);
  const Instant t{Duration(*rc::gen::inRange<std::int64_t>(0, hours(24 * 3650) / Duration(1)))};
  const Availability promise = devices->availability(device, t);
  RC_ASSERT(promise.until.has_value() && *promise.until > t);
  for (int i = 1; i < 8; ++i) {
    const Instant later{t.since_start + (*promise.until - t) / 8 * i};
    RC_ASSERT(devices->availability(device, later).reachable == promise.reachable);
  }
  RC_ASSERT(devices->availability(device, {promise.until->since_start - Duration(1)}).reachable == promise.reachable);
}

TEST(Availability, ExponentialDevicesHaveTheirMeans) {
  const auto devices = make(exponential());
  Duration on{};
  std::uint32_t changes = 0;
  constexpr std::uint32_t kDevices = 100;
  const Duration each = hours(24 * 20);
  for (std::uint32_t device = 0; device < kDevices; ++device) on += time_on(*devices, device, each, changes);
  const double whole = to_seconds(each) * kDevices;
  EXPECT_NEAR(to_seconds(on) / whole, 0.25, 0.01);
  // One on and one off take two hours.
  EXPECT_NEAR(changes, 2.0 * whole / 7'200.0, 0.05 * whole / 3'600.0);
}

TEST(Availability, ExponentialDevicesAreOnByTheirShareAtEveryMoment) {
  const auto devices = make(exponential());
  // The start of a block, its middle, and far away.
  for (const Instant t : {Instant{}, Instant{hours(32)}, Instant{hours(47)}, Instant{hours(999'999)}}) {
    std::uint32_t on = 0;
    for (std::uint32_t device = 0; device < 8'000; ++device) on += devices->availability(device, t).reachable ? 1U : 0U;
    EXPECT_NEAR(on, 2'000, 180) << to_seconds(t.since_start);
  }
}

}  // namespace
}  // namespace gleaner::simulation
