#include "scheduling/cohort.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

#include "fleet.hpp"

namespace gleaner {
namespace {

TEST(HeadCount, EdgesOfQuorumAndOverSelection) {
  struct Case {
    std::uint32_t eligible, cohort_size;
    double over_selection, quorum;
    std::uint32_t planned, answers_wanted;
  };
  const Case cases[] = {
      {1, 0, 1.0, 1.0, 1, 1},     {1, 10, 1.3, 0.1, 1, 1},     {10, 10, 1.3, 1.0, 10, 10},  {100, 10, 1.3, 1.0, 13, 10},
      {100, 10, 1.3, 0.8, 13, 8}, {100, 10, 1.1, 0.85, 11, 9}, {11, 10, 1.3, 0.001, 11, 1}, {100, 3, 1.3, 0.5, 4, 2},
      {7, 0, 2.0, 0.8, 7, 6},     {30, 30, 1.0, 0.1, 30, 3},
  };
  for (const Case& c : cases) {
    PlannerSettings settings = plain_settings();
    settings.cohort_size = c.cohort_size;
    settings.over_selection = c.over_selection;
    settings.quorum = c.quorum;
    const auto heads = count_heads(settings, c.eligible);
    ASSERT_TRUE(heads.has_value());
    EXPECT_EQ(heads->planned, c.planned) << c.eligible << ' ' << c.over_selection;
    EXPECT_EQ(heads->answers_wanted, c.answers_wanted) << c.eligible << ' ' << c.quorum;
  }
}

TEST(HeadCount, SaysHowManyAreMissing) {
  PlannerSettings settings = plain_settings();
  settings.min_devices = 5;
  const auto heads = count_heads(settings, 3);
  ASSERT_FALSE(heads.has_value());
  EXPECT_EQ(heads.error().code(), ErrorCode::retry);
  EXPECT_EQ(heads.error().message(), "3 of the 5 devices a round needs are ready: waiting for 2 more");
  settings.min_devices = 0;
  EXPECT_FALSE(count_heads(settings, 0).has_value());
  EXPECT_TRUE(count_heads(settings, 1).has_value());
}

TEST(HeadCount, RefusesSettingsWithoutSense) {
  const auto code = [](auto change) {
    PlannerSettings settings = plain_settings();
    change(settings);
    const auto heads = count_heads(settings, 10);
    return heads ? ErrorCode::fatal : heads.error().code();
  };
  EXPECT_EQ(code([](PlannerSettings& s) { s.quorum = 0.0; }), ErrorCode::bad_input);
  EXPECT_EQ(code([](PlannerSettings& s) { s.quorum = 1.01; }), ErrorCode::bad_input);
  EXPECT_EQ(code([](PlannerSettings& s) { s.over_selection = 0.9; }), ErrorCode::bad_input);
  EXPECT_EQ(code([](PlannerSettings& s) { s.density_up = 0.0; }), ErrorCode::bad_input);
  EXPECT_EQ(code([](PlannerSettings& s) { s.density_up = std::numeric_limits<double>::quiet_NaN(); }),
            ErrorCode::bad_input);
  EXPECT_EQ(code([](PlannerSettings& s) { s.bytes_per_entry = 0.0; }), ErrorCode::bad_input);
  EXPECT_EQ(code([](PlannerSettings& s) { s.dimension = 0; }), ErrorCode::bad_input);
  EXPECT_EQ(code([](PlannerSettings& s) { s.batch_size = 0; }), ErrorCode::bad_input);
  EXPECT_EQ(code([](PlannerSettings& s) { s.deadline = from_seconds(-1.0); }), ErrorCode::bad_input);
}

RC_GTEST_PROP(Draw, GivesDistinctAscendingPositions, ()) {
  const auto fleet = any_fleet(1);
  const auto all = static_cast<std::uint32_t>(fleet.size());
  const auto count = *rc::gen::inRange(1U, all + 1);
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  for (const auto& drawn : {draw_uniform(seed, 3, all, count), draw_weighted(seed, 3, fleet, count)}) {
    RC_ASSERT(drawn.size() == count);
    RC_ASSERT(std::ranges::is_sorted(drawn, std::ranges::less_equal{}));
    RC_ASSERT(std::set<std::uint32_t>(drawn.begin(), drawn.end()).size() == count);
    RC_ASSERT(drawn.back() < all);
  }
}

TEST(Draw, UniformIsFair) {
  std::vector<int> drawn(20);
  for (std::uint32_t round = 0; round < 10'000; ++round) {
    for (const auto i : draw_uniform(5, round, 20, 5)) ++drawn[i];
  }
  for (const int times : drawn) EXPECT_NEAR(times, 2'500, 200);
}

TEST(Draw, FailuresHalveTheChance) {
  auto fleet = plain_fleet(64);
  fleet[7].failures_in_a_row = 1;
  fleet[9].failures_in_a_row = 3;
  std::vector<int> drawn(64);
  for (std::uint32_t round = 0; round < 64'000; ++round) ++drawn[draw_weighted(5, round, fleet, 1).front()];
  EXPECT_NEAR(drawn[7], 500, 120);
  EXPECT_NEAR(drawn[9], 125, 60);
  EXPECT_NEAR(drawn[20], 1'015, 150);
}

// Devices that always fail and devices that never do, over many rounds: nobody waits beyond the stated bound.
RC_GTEST_PROP(Draw, NobodyStarves, ()) {
  const auto all = *rc::gen::inRange(2U, 60U);
  const auto count = *rc::gen::inRange(1U, all);
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const auto failing_share = *rc::gen::inRange(0U, 100U);
  auto fleet = plain_fleet(all);
  for (std::uint32_t i = 0; i < all; ++i) fleet[i].failures_in_a_row = i * 100 < all * failing_share ? 12 : 0;
  const std::uint32_t rotation = (all + count - 1) / count;
  for (std::uint32_t round = 0; round < 40 * rotation; ++round) {
    for (auto& device : fleet) ++device.rounds_since_planned;
    for (const auto i : draw_weighted(seed, round, fleet, count)) fleet[i].rounds_since_planned = 0;
    for (const auto& device : fleet) {
      RC_ASSERT(device.rounds_since_planned <= patience_rounds(device.failures_in_a_row, all, count) + rotation);
    }
  }
}

}  // namespace
}  // namespace gleaner
