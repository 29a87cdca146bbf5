#include "scheduling/entries.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "fleet.hpp"

namespace gleaner {
namespace {

TEST(Recipe, RoundsToTheNearestAndKeepsOne) {
  PlannerSettings settings = plain_settings();
  EXPECT_EQ(recipe_entries(settings), 1'590U);
  settings.density_up = 1e-9;
  EXPECT_EQ(recipe_entries(settings), 1U);
  settings.density_up = 1.0;
  EXPECT_EQ(recipe_entries(settings), 159'010U);
  settings.dimension = 4'294'967'295U;
  EXPECT_EQ(recipe_entries(settings), 4'294'967'295U);
}

TEST(Deadline, LeavesTheUploadWhatTrainingDoesNotTake) {
  PlannerSettings settings = plain_settings();  // 60 s, of which 54 are used
  settings.bytes_per_entry = 2.0;
  DeviceProfile device = plain_device(0);  // 600 samples, one epoch
  EXPECT_EQ(fit_deadline(settings, device).entries_max, 1'590U);

  device.samples_per_s = 15.0;  // 40 s
  device.downlink_bytes_per_s = 1'000.0;
  device.sync_bytes = 4'000;  // 4 s
  device.uplink_bytes_per_s = 100.0;
  Workload work = fit_deadline(settings, device);  // 50 s left, 12.5 s of them for the upload
  EXPECT_EQ(work.entries_max, 625U);
  EXPECT_EQ(work.steps_max, 17U);  // 37.5 s * 15 / 32

  device.samples_per_s = 20.0;  // 30 s: nothing is cut, the upload has 20 s
  work = fit_deadline(settings, device);
  EXPECT_EQ(work.entries_max, 1'000U);
  EXPECT_EQ(work.steps_max, 0U);

  settings.deadline = Duration::zero();
  EXPECT_EQ(fit_deadline(settings, device).entries_max, 1'590U);
}

TEST(Deadline, HopelessDevicesAreStillAskedForOneEntryAndOneStep) {
  PlannerSettings settings = plain_settings();
  DeviceProfile device = plain_device(0);
  device.samples_per_s = 0.001;
  device.uplink_bytes_per_s = 0.001;
  device.downlink_bytes_per_s = 0.001;
  device.sync_bytes = UINT64_MAX;
  const Workload work = fit_deadline(settings, device);
  EXPECT_EQ(work.entries_max, 1U);
  EXPECT_EQ(work.steps_max, 1U);
}

RC_GTEST_PROP(Deadline, WorkAndUploadFitAndGrowWithTheDeadline, ()) {
  PlannerSettings settings = any_settings();
  settings.deadline = from_seconds(*rc::gen::inRange(1, 200));
  const DeviceProfile device = any_fleet(1).front();
  const Workload work = fit_deadline(settings, device);
  RC_ASSERT(work.entries_max >= 1U);
  RC_ASSERT(work.entries_max <= recipe_entries(settings));

  double needed_s = 0.0;
  if (device.downlink_bytes_per_s > 0.0) {
    needed_s += static_cast<double>(device.sync_bytes) / device.downlink_bytes_per_s;
  }
  if (device.uplink_bytes_per_s > 0.0) {
    needed_s += work.entries_max * settings.bytes_per_entry / device.uplink_bytes_per_s;
  }
  if (device.samples_per_s > 0.0) {
    const double all = static_cast<double>(device.samples) * settings.local_epochs;
    const double planned = work.steps_max == 0 ? all : static_cast<double>(work.steps_max) * settings.batch_size;
    needed_s += planned / device.samples_per_s;
  }
  const bool at_the_floor = work.entries_max == 1 || work.steps_max == 1;
  RC_ASSERT(at_the_floor || needed_s <= to_seconds(settings.deadline) * 0.9 + 1e-6);

  PlannerSettings longer = settings;
  longer.deadline += from_seconds(*rc::gen::inRange(1, 50));
  const Workload more = fit_deadline(longer, device);
  RC_ASSERT(more.entries_max >= work.entries_max);
  RC_ASSERT(more.steps_max == 0 || (work.steps_max != 0 && more.steps_max >= work.steps_max));
}

TEST(Water, FillsTheSmallFirst) {
  const std::vector<std::uint32_t> caps = {10, 2, 10, 5};
  EXPECT_EQ(fill_water(caps, 27), caps);
  EXPECT_EQ(fill_water(caps, 1'000'000'000'000), caps);
  EXPECT_EQ(fill_water(caps, 20), (std::vector<std::uint32_t>{7, 2, 6, 5}));
  EXPECT_EQ(fill_water(caps, 10), (std::vector<std::uint32_t>{3, 2, 3, 2}));
  EXPECT_EQ(fill_water(caps, 3), (std::vector<std::uint32_t>{1, 1, 1, 1}));
  EXPECT_EQ(fill_water({}, 3), (std::vector<std::uint32_t>{}));
}

RC_GTEST_PROP(Water, SpendsTheBudgetFairlyAndGrowsWithIt, ()) {
  const auto caps = *rc::gen::nonEmpty(rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange(1U, 100U)));
  const auto entries = *rc::gen::inRange<std::uint64_t>(0, 4'000);
  const auto granted = fill_water(caps, entries);
  const std::uint64_t wanted = std::accumulate(caps.begin(), caps.end(), std::uint64_t{0});
  const std::uint64_t sum = std::accumulate(granted.begin(), granted.end(), std::uint64_t{0});
  RC_ASSERT(sum == std::max<std::uint64_t>(std::min(entries, wanted), caps.size()));
  const std::uint32_t highest = std::ranges::max(granted);
  for (std::size_t i = 0; i < caps.size(); ++i) {
    RC_ASSERT(granted[i] >= 1U);
    RC_ASSERT(granted[i] <= caps[i]);
    RC_ASSERT(granted[i] == caps[i] || granted[i] + 1 >= highest);
  }
  const auto more = fill_water(caps, entries + *rc::gen::inRange<std::uint64_t>(0, 50));
  for (std::size_t i = 0; i < caps.size(); ++i) RC_ASSERT(more[i] >= granted[i]);
}

RC_GTEST_PROP(Budget, EntriesNeverCostMoreThanTheBytes, ()) {
  const auto bytes = *rc::gen::inRange<std::uint64_t>(0, 1'000'000'000'000);
  const double each = *rc::gen::inRange(1, 9'000) / 1000.0;
  const std::uint64_t entries = entries_within(bytes, each);
  RC_ASSERT(static_cast<double>(entries) * each <= static_cast<double>(bytes));
  RC_ASSERT(static_cast<double>(entries + 2) * each > static_cast<double>(bytes));
}

}  // namespace
}  // namespace gleaner
