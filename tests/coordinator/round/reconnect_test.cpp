#include <gtest/gtest.h>

#include "harness.hpp"

namespace gleaner::round {
namespace {

DeviceAccepted returning(const std::string& name, PlanId pending, std::uint64_t digest) {
  return {.device = {name},
          .samples = 10,
          .has_model = true,
          .lineage = {7},
          .version = {0},
          .model_hash = Harness::hash_of_version({0}),
          .pending_plan = pending,
          .pending_digest = {digest},
          .stored = std::nullopt,
          .base_hash = Harness::hash_of_version({0})};
}

TEST(Reconnect, AnUnheardUpdateIsAskedForAgain) {
  Harness h;
  h.join("a");
  const PlanId plan = h.plan_of("a");
  h.leave("a");
  h.forget();
  h.send(returning("a", plan, 5));
  ASSERT_EQ(h.count<SendSettle>(), 1U);
  EXPECT_TRUE(h.seen<SendSettle>().back().resend);
  EXPECT_EQ(h.count<SendPlan>(), 0U);
}

TEST(Reconnect, AHeldUpdateIsNotAskedForAgain) {
  Harness h;
  h.answer_folds = false;
  h.join("a");
  const PlanId plan = h.plan_of("a");
  h.update("a", 5);
  h.forget();
  h.send(returning("a", plan, 5));
  EXPECT_FALSE(h.seen<SendSettle>().back().resend);
  EXPECT_EQ(h.seen<SendSettle>().back().outcome, Outcome::unknown);
}

TEST(Reconnect, TheLogAnswersForClosedPlans) {
  Harness h;
  h.join("a");
  auto event = returning("a", {999}, 5);
  event.stored = StoredOutcome{.outcome = Outcome::included, .digest = {5}};
  h.send(event);
  EXPECT_EQ(h.seen<SendSettle>().back().outcome, Outcome::included);
  event.stored->digest = {6};  // another answer was included: this one was not
  h.send(event);
  EXPECT_EQ(h.seen<SendSettle>().back().outcome, Outcome::abandoned);
  event.stored.reset();
  h.send(event);
  EXPECT_EQ(h.seen<SendSettle>().back().outcome, Outcome::abandoned);
}

TEST(Reconnect, AnotherLineageIsPutBackAndGetsAWholeModel) {
  Harness h;
  auto event = returning("a", {1}, 5);
  event.lineage = {8};
  h.send(event);
  EXPECT_EQ(h.seen<SendSettle>().back().outcome, Outcome::abandoned);
  EXPECT_FALSE(h.seen<SendPlan>().back().has_model);
}

TEST(Reconnect, AModelThatDiffersIsNotTrusted) {
  Harness h;
  auto event = returning("a", {}, 0);
  event.model_hash = 12345;
  h.send(event);
  EXPECT_FALSE(h.seen<SendPlan>().back().has_model);
}

TEST(Reconnect, DevicesAheadOfTheDatabaseChangeTheLineageOnce) {
  Harness h;
  auto event = returning("a", {}, 0);
  event.version = {41};
  h.send(event);
  h.send(event);
  EXPECT_EQ(h.count<ChangeLineage>(), 1U);
}

TEST(Restart, AnOpenRoundResumesWithItsOwnPlansAndItsDeadlineRestarted) {
  const PlanRow open{.id = {17},
                     .device = {"a"},
                     .round = 5,
                     .base = {4},
                     .entries_max = 10,
                     .clip_exponent = 10,
                     .weight_bits = 4,
                     .samples = 10};
  Start start{.lineage = {7}, .divisor = 10, .rounds_done = 4, .next_plan = {18}, .version = {4}, .open_plans = {open}};
  auto settings = test_settings();
  settings.rounds = 6;
  Harness h(settings, start);
  EXPECT_EQ(h.machine().phase(), Phase::collecting);
  EXPECT_EQ(h.machine().round(), 5U);
  EXPECT_EQ(h.count<StorePlans>(), 0U);
  EXPECT_EQ(h.seen<StartTimer>().back().after, std::chrono::seconds(60));
  EXPECT_EQ(h.seen<BeginRound>().back().grid.weight_bits, 4);
  h.join("a");
  EXPECT_EQ(h.seen<SendPlan>().back().plan.id.value, 17U);
  h.update("a");
  EXPECT_EQ(h.machine().version().value, 5U);
}

// A plan that was given up was refused for nothing that the device did, so that its late answer is told something else.
TEST(Restart, AnAnswerToAPlanWhoseBaseIsGoneIsStale) {
  const PlanRow open{.id = {17},
                     .device = {"a"},
                     .round = 5,
                     .base = {4},
                     .entries_max = 10,
                     .clip_exponent = 10,
                     .weight_bits = 4,
                     .samples = 10};
  Start start{.lineage = {7}, .divisor = 10, .rounds_done = 5, .next_plan = {18}, .version = {5}, .open_plans = {open}};
  auto settings = test_settings();
  settings.rounds = 9;
  settings.staleness_max = 3;
  Harness h(settings, start);
  h.answer_stores = false;
  h.join("a");
  h.forget();
  h.send(UpdateArrived{.device = {"a"}, .plan = {17}, .digest = {1}, .samples = 10});
  ASSERT_EQ(h.count<SendRefused>(), 1U);
  EXPECT_EQ(h.seen<SendRefused>().back().code, RefusalCode::stale_plan);
  EXPECT_NE(h.seen<SendRefused>().back().detail.find("given up"), std::string::npos);
}

TEST(Restart, TheDivisorStaysWhatItWas) {
  Start start{.lineage = {7}, .divisor = 123, .rounds_done = 1, .next_plan = {2}, .version = {1}};
  Harness h(test_settings(), start);
  h.join("a", 50);
  EXPECT_EQ(h.seen<StorePlans>().back().divisor, 123);
}

TEST(Restart, AFinishedRunStaysFinished) {
  Start start{.lineage = {7}, .rounds_done = 3, .version = {3}};
  Harness h(test_settings(), start);
  EXPECT_EQ(h.machine().phase(), Phase::finished);
  h.join("a");
  EXPECT_EQ(h.count<StorePlans>(), 0U);
}

}  // namespace
}  // namespace gleaner::round
