#include "scheduling/planner.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <random>

#include "common/random.hpp"
#include "fleet.hpp"
#include "scheduling/entries.hpp"

namespace gleaner {
namespace {

std::unique_ptr<Planner> planner(std::string_view name) {
  auto made = make_planner(name);
  EXPECT_TRUE(made.has_value());
  return std::move(*made);
}

std::string text(const RoundPlan& plan) {
  std::string out = fmt::format("{} {}\n", plan.answers_wanted, plan.deadline.count());
  for (const auto& d : plan.devices) {
    out += fmt::format("{} {} {} {}\n", d.name.value, d.entries_max, d.steps_max, d.limited_by);
  }
  return out;
}

TEST(PlannerTable, NamesRoundTripAndUnknownOnesListTheCandidates) {
  for (const std::string& name : planner_names()) EXPECT_EQ(planner(name)->name(), name);
  const auto unknown = make_planner("greedy");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code(), ErrorCode::bad_input);
  EXPECT_EQ(unknown.error().message(), "unknown planner 'greedy': use joint and uniform");
}

// What every planner promises.
RC_GTEST_PROP(PlannerConformance, IsAPureFunctionThatIgnoresTheOrderOfItsInput, ()) {
  auto fleet = any_fleet(1);
  PlannerSettings settings = any_settings();
  settings.reproducible = *rc::gen::arbitrary<bool>();
  settings.uplink_bytes_per_round = *rc::gen::inRange<std::uint64_t>(0, 200'000);
  const auto round = *rc::gen::inRange(0U, 1'000U);
  for (const std::string& name : planner_names()) {
    const auto made = planner(name);
    const auto plan = made->plan(settings, round, fleet);
    RC_ASSERT(plan.has_value());
    auto shuffled = fleet;
    Random random(*rc::gen::arbitrary<std::uint64_t>(), Purpose::test);
    std::ranges::shuffle(shuffled, random);
    RC_ASSERT(text(*made->plan(settings, round, shuffled)) == text(*plan));

    RC_ASSERT(std::ranges::is_sorted(plan->devices, {}, &PlannedDevice::name));
    RC_ASSERT(!plan->devices.empty());
    RC_ASSERT(plan->answers_wanted >= 1U);
    RC_ASSERT(plan->answers_wanted <= plan->devices.size());
    for (const auto& device : plan->devices) {
      RC_ASSERT(device.entries_max >= 1U);
      RC_ASSERT(device.entries_max <= recipe_entries(settings));
    }
  }
}

RC_GTEST_PROP(PlannerConformance, ReproduciblePlansLookAtNothingMeasured, ()) {
  auto fleet = any_fleet(1);
  PlannerSettings settings = any_settings();
  settings.reproducible = true;
  settings.uplink_bytes_per_round = 1'000;
  for (const std::string& name : planner_names()) {
    const auto made = planner(name);
    const auto plan = made->plan(settings, 4, fleet);
    const auto other = made->plan(settings, 4, plain_fleet(static_cast<std::uint32_t>(fleet.size())));
    RC_ASSERT(text(*plan) == text(*other));
    RC_ASSERT(plan->deadline == Duration::zero());
    RC_ASSERT(plan->answers_wanted == plan->devices.size());
    const std::size_t expected =
        settings.cohort_size == 0 ? fleet.size() : std::min<std::size_t>(settings.cohort_size, fleet.size());
    RC_ASSERT(plan->devices.size() == expected);
    for (const auto& device : plan->devices) {
      RC_ASSERT(device.entries_max == recipe_entries(settings));
      RC_ASSERT(device.steps_max == 0U);
    }
  }
}

TEST(PlannerConformance, CohortsDifferFromRoundToRoundAndSeedToSeed) {
  PlannerSettings settings = plain_settings();
  settings.cohort_size = 10;
  for (const std::string& name : planner_names()) {
    const auto made = planner(name);
    const auto first = text(*made->plan(settings, 1, plain_fleet(100)));
    EXPECT_NE(first, text(*made->plan(settings, 2, plain_fleet(100))));
    PlannerSettings reseeded = settings;
    reseeded.seed += 1;
    EXPECT_NE(first, text(*made->plan(reseeded, 1, plain_fleet(100))));
  }
}

TEST(PlannerConformance, TooFewDevicesIsARetry) {
  PlannerSettings settings = plain_settings();
  settings.min_devices = 3;
  for (const std::string& name : planner_names()) {
    const auto plan = planner(name)->plan(settings, 0, plain_fleet(2));
    ASSERT_FALSE(plan.has_value());
    EXPECT_EQ(plan.error().code(), ErrorCode::retry);
  }
}

RC_GTEST_PROP(Joint, KeepsTheBudgetAndGrowsWithIt, ()) {
  const auto fleet = any_fleet(1);
  PlannerSettings settings = any_settings();
  settings.uplink_bytes_per_round = *rc::gen::inRange<std::uint64_t>(1, 500'000);
  const auto made = planner("joint");
  const auto plan = *made->plan(settings, 9, fleet);
  double bytes = 0.0;
  for (const auto& device : plan.devices) bytes += device.entries_max * settings.bytes_per_entry;
  const double least = static_cast<double>(plan.devices.size()) * settings.bytes_per_entry;
  RC_ASSERT(bytes <= std::max(static_cast<double>(settings.uplink_bytes_per_round), least) + 1e-6);

  PlannerSettings richer = settings;
  richer.uplink_bytes_per_round += *rc::gen::inRange<std::uint64_t>(0, 100'000);
  const auto more = *made->plan(richer, 9, fleet);
  RC_ASSERT(more.devices.size() == plan.devices.size());
  for (std::size_t i = 0; i < plan.devices.size(); ++i) {
    RC_ASSERT(more.devices[i].name == plan.devices[i].name);
    RC_ASSERT(more.devices[i].entries_max >= plan.devices[i].entries_max);
  }
}

TEST(Joint, SaysWhatLimitsADevice) {
  PlannerSettings settings = plain_settings();
  settings.bytes_per_entry = 2.0;
  auto fleet = plain_fleet(3);
  fleet[1].uplink_bytes_per_s = 10.0;  // 54 s: 270 entries
  const auto made = planner("joint");
  auto plan = *made->plan(settings, 0, fleet);
  EXPECT_EQ(plan.devices[0].limited_by, "recipe");
  EXPECT_EQ(plan.devices[1].limited_by, "uplink");
  EXPECT_EQ(plan.devices[1].entries_max, 270U);
  settings.uplink_bytes_per_round = 2 * (270 + 2 * 1'000);
  plan = *made->plan(settings, 0, fleet);
  EXPECT_EQ(plan.devices[0].limited_by, "budget");
  EXPECT_EQ(plan.devices[0].entries_max, 1'000U);
  EXPECT_EQ(plan.devices[1].limited_by, "uplink");
  EXPECT_EQ(plan.devices[2].entries_max, 1'000U);
}

// Another machine must draw the same cohort from the same seed.
TEST(Joint, GoldenCohort) {
  PlannerSettings settings = plain_settings();
  settings.cohort_size = 4;
  auto fleet = plain_fleet(50);
  for (std::uint32_t i = 0; i < 50; ++i) {
    fleet[i].failures_in_a_row = i % 3;
    fleet[i].rounds_since_planned = i;
  }
  fleet[13].rounds_since_planned = 500;
  const auto plan = *planner("joint")->plan(settings, 7, fleet);
  std::string names;
  for (const auto& device : plan.devices) names += device.name.value + ' ';
  EXPECT_EQ(names, "device-00004 device-00009 device-00013 device-00041 ");
}

TEST(Rate, FirstMeasurementCountsWholeAndNonsenseNotAtAll) {
  EXPECT_EQ(update_rate(0.0, 100.0), 100.0);
  EXPECT_DOUBLE_EQ(update_rate(100.0, 200.0), 130.0);
  EXPECT_EQ(update_rate(100.0, 200.0, 1.0), 200.0);
  EXPECT_EQ(update_rate(100.0, 0.0), 100.0);
  EXPECT_EQ(update_rate(100.0, std::numeric_limits<double>::infinity()), 100.0);
  EXPECT_EQ(update_rate(100.0, std::numeric_limits<double>::quiet_NaN()), 100.0);
}

}  // namespace
}  // namespace gleaner
