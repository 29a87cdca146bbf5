#include <gtest/gtest.h>

#include "harness.hpp"

namespace gleaner::round {
namespace {

TEST(Round, RunsToTheEndWhenEverybodyAnswers) {
  Harness h;
  h.join("a");
  for (std::uint32_t round = 1; round <= 3; ++round) {
    EXPECT_EQ(h.machine().phase(), Phase::collecting);
    EXPECT_EQ(h.machine().round(), round);
    h.update("a", round);
    EXPECT_EQ(h.machine().version().value, round);
  }
  EXPECT_EQ(h.machine().phase(), Phase::finished);
  EXPECT_EQ(h.count<Finish>(), 1U);
  EXPECT_EQ(h.count<Evaluate>(), 3U);
  EXPECT_EQ(h.machine().counters().uploads, 3U);
}

TEST(Round, PlansAreStoredBeforeTheyAreSent) {
  Harness h;
  h.answer_stores = false;
  h.join("a");
  EXPECT_EQ(h.count<StorePlans>(), 1U);
  EXPECT_EQ(h.count<SendPlan>(), 0U);
  h.send(PlansStored{});
  EXPECT_EQ(h.count<SendPlan>(), 1U);
}

TEST(Round, TheOutcomeRidesOnTheNextPlanAndOnlyAfterTheCommit) {
  Harness h;
  h.join("a");
  const PlanId first = h.plan_of("a");
  EXPECT_EQ(h.seen<SendPlan>().back().settled_plan, PlanId{});
  h.update("a");
  const auto plan = h.seen<SendPlan>().back();
  EXPECT_EQ(plan.settled_plan, first);
  EXPECT_EQ(plan.settled_outcome, Outcome::included);
  EXPECT_NE(plan.plan.id, first);
}

TEST(Round, ClosesAtQuorumWithoutWaitingForTheRest) {
  auto settings = test_settings();
  settings.planning.min_devices = 4;
  settings.planning.quorum = 0.5;
  Harness h(settings);
  for (const char* name : {"a", "b", "c", "d"}) h.join(name);
  h.update("a");
  EXPECT_EQ(h.machine().version().value, 0U);
  h.skip("b");
  EXPECT_EQ(h.machine().version().value, 1U);
  EXPECT_EQ(h.machine().counters().skips, 1U);
}

TEST(Round, ClosesAtTheDeadlineByItsOwnTimer) {
  auto settings = test_settings();
  settings.planning.min_devices = 2;
  Harness h(settings);
  h.join("a");
  h.join("b");
  EXPECT_EQ(h.seen<StartTimer>().back().after, std::chrono::seconds(60));
  h.update("a");
  EXPECT_EQ(h.machine().version().value, 0U);
  h.fire(Timer::deadline);
  EXPECT_EQ(h.machine().version().value, 1U);
}

TEST(Round, ALateUpdateEntersTheNextRoundAtFullWeight) {
  auto settings = test_settings();
  settings.planning.min_devices = 3;
  settings.planning.quorum = 0.6;
  Harness h(settings);
  h.join("a");
  h.join("b");
  h.join("c");
  const PlanId late = h.plan_of("b");
  h.update("a");
  h.update("c");
  ASSERT_EQ(h.machine().version().value, 1U);
  EXPECT_EQ(h.plan_of("b"), late);  // still open, so it gets no new plan
  h.update("b", 9);
  h.update("a", 2);
  h.update("c", 2);
  ASSERT_EQ(h.machine().version().value, 2U);
  bool included = false;
  const auto commit = h.seen<Commit>().back();
  for (const auto& answer : commit.answers)
    included = included || (answer.plan == late && answer.outcome == Outcome::included);
  EXPECT_TRUE(included);
  EXPECT_EQ(commit.late_uploads, 1U) << "so that the record says it too";
  EXPECT_EQ(h.machine().counters().late_uploads, 1U);
}

TEST(Round, APlanOlderThanTheStalenessBoundIsClosedAndTheDeviceMayTakePartAgain) {
  auto settings = test_settings();
  settings.rounds = 10;
  settings.planning.quorum = 0.5;
  settings.planning.min_devices = 2;
  settings.staleness_max = 1;
  Harness h(settings);
  h.join("a");
  h.join("b");
  h.join("c");
  const PlanId silent = h.plan_of("b");
  for (std::uint64_t i = 1; h.plan_of("b") == silent && i < 5; ++i) {
    h.update("a", i);
    if (h.plan_of("c").value != 0) h.update("c", i);
  }
  EXPECT_NE(h.plan_of("b"), silent);
  EXPECT_EQ(h.machine().counters().lapsed_plans, 1U);
  h.send(UpdateArrived{.device = {"b"}, .plan = silent, .digest = {1}, .samples = 10});
  EXPECT_EQ(h.seen<SendRefused>().back().code, RefusalCode::stale_plan);
}

TEST(Round, ARoundWithoutAUsableUpdateKeepsTheModelAndSaysSo) {
  Harness h;
  h.join("a");
  h.fire(Timer::deadline);
  EXPECT_EQ(h.machine().version().value, 0U);
  EXPECT_EQ(h.count<Step>(), 0U);
  const auto commit = h.seen<Commit>().back();
  EXPECT_EQ(commit.version.value, 0U);
  EXPECT_EQ(h.machine().counters().empty_rounds, 1U);
}

TEST(Round, EmptyRoundsAreSaidFewerAndFewerTimes) {
  auto settings = test_settings();
  settings.planning.min_devices = 2;
  Harness h(settings);
  h.join("a");
  h.join("b");
  for (int i = 0; i < 1'000; ++i) {
    h.fire(Timer::deadline);
    h.advance(std::chrono::minutes(10));
    h.fire(Timer::planning_retry);
  }
  EXPECT_GT(h.machine().counters().empty_rounds, 100U);
  EXPECT_LT(h.count<Note>(), 15U);
  EXPECT_GT(h.count<Note>(), 4U);
  const auto notes = h.count<Note>();
  h.update("a");
  h.update("b");
  ASSERT_EQ(h.machine().version().value, 1U);
  EXPECT_EQ(h.count<Note>(), notes + 1);
  EXPECT_NE(h.seen<Note>().back().text.find("the first after"), std::string::npos);
}

TEST(Round, ZeroWeightIsLegalAndChangesNothing) {
  Harness h;
  h.join("a", 0);
  h.update("a", 1, 0);
  EXPECT_EQ(h.count<Fold>(), 1U);
  EXPECT_EQ(h.count<Step>(), 0U);
  EXPECT_EQ(h.machine().version().value, 0U);
}

TEST(Round, ARefusedUpdateDoesNotHoldUpTheRound) {
  auto settings = test_settings();
  settings.planning.min_devices = 2;
  Harness h(settings);
  h.join("a");
  h.join("b");
  h.refuse.push_back({h.plan_of("b"), RefusalCode::non_finite});
  h.update("b");
  EXPECT_EQ(h.seen<SendRefused>().back().code, RefusalCode::non_finite);
  h.update("a");
  EXPECT_EQ(h.machine().version().value, 1U);
  EXPECT_EQ(h.machine().counters().refusals, 1U);
}

TEST(Round, AnotherWeightThanAnnouncedIsRefused) {
  Harness h;
  h.join("a", 10);
  h.update("a", 1, 1'000'000);
  EXPECT_EQ(h.count<Fold>(), 0U);
  EXPECT_EQ(h.seen<SendRefused>().back().code, RefusalCode::wrong_weight);
}

TEST(Round, TheFirstDigestWinsAndTheSameOneIsNeverRefused) {
  Harness h;
  h.answer_folds = false;
  h.join("a");
  const PlanId plan = h.plan_of("a");
  h.update("a", 5);
  h.forget();
  h.update("a", 5);
  EXPECT_EQ(h.count<SendRefused>(), 0U);
  EXPECT_EQ(h.seen<SendSettle>().back().outcome, Outcome::unknown);
  h.update("a", 6);
  EXPECT_EQ(h.seen<SendRefused>().back().code, RefusalCode::wrong_digest);
  EXPECT_EQ(h.count<Fold>(), 0U);
  h.finish_fold(plan);
  EXPECT_EQ(h.machine().version().value, 1U);
}

TEST(Round, ClosingWaitsForFoldsInProgress) {
  Harness h;
  h.answer_folds = false;
  h.join("a");
  const PlanId plan = h.plan_of("a");
  h.update("a");
  EXPECT_EQ(h.machine().phase(), Phase::closing);
  EXPECT_EQ(h.count<Step>(), 0U);
  h.finish_fold(plan);
  EXPECT_EQ(h.machine().version().value, 1U);
}

TEST(Round, AFullDiskSuspendsTellsNobodyAndGoesOn) {
  Harness h;
  h.join("a");
  h.storage_errors = {"disk full"};
  h.forget();
  h.update("a");
  EXPECT_EQ(h.machine().phase(), Phase::suspended);
  EXPECT_EQ(h.machine().version().value, 0U);
  EXPECT_EQ(h.count<SendPlan>(), 0U);
  EXPECT_NE(h.machine().waiting_for().find("disk full"), std::string::npos);
  const auto first = h.seen<Commit>().back();
  h.fire(Timer::storage_retry);
  EXPECT_EQ(h.machine().version().value, 1U);
  EXPECT_EQ(h.seen<Commit>().back().answers.size(), first.answers.size());
  EXPECT_EQ(h.seen<SendPlan>().back().settled_outcome, Outcome::included);
}

TEST(Round, AFullDiskWhileIssuingSendsNothingAndPlanNumbersAreNotReused) {
  Harness h;
  h.storage_errors = {"disk full"};
  h.join("a");
  EXPECT_EQ(h.count<SendPlan>(), 0U);
  EXPECT_EQ(h.machine().phase(), Phase::waiting);
  const PlanId lost = h.seen<StorePlans>().back().plans.front().id;
  h.fire(Timer::planning_retry);
  EXPECT_EQ(h.machine().phase(), Phase::collecting);
  EXPECT_GT(h.plan_of("a"), lost);
}

TEST(Round, AnUnusableSumPutsEverythingBack) {
  Harness h;
  h.step_error = "not finite";
  h.join("a");
  h.update("a");
  const auto commit = h.seen<Commit>().back();
  EXPECT_EQ(commit.version.value, 0U);
  EXPECT_EQ(commit.answers.front().outcome, Outcome::abandoned);
}

TEST(Round, PausedRunsFinishTheirRoundAndStartNoOther) {
  Harness h;
  h.join("a");
  h.send(Paused{});
  h.update("a");
  EXPECT_EQ(h.machine().version().value, 1U);
  EXPECT_EQ(h.machine().phase(), Phase::waiting);
  h.send(Resumed{});
  EXPECT_EQ(h.machine().phase(), Phase::collecting);
}

TEST(Round, ReproducibleRunsWaitForEverybodyHoweverLong) {
  auto settings = test_settings();
  settings.spec.reproducible = true;
  settings.planning.deadline = {};
  settings.planning.cohort_size = 2;
  Harness h(settings);
  h.join("a");
  EXPECT_EQ(h.machine().phase(), Phase::waiting);
  h.join("b");
  EXPECT_EQ(h.machine().phase(), Phase::collecting);
  h.update("a");
  h.leave("b");
  EXPECT_EQ(h.machine().version().value, 0U);
  h.join("b");  // trained nothing as far as it says: the plan goes out again
  EXPECT_EQ(h.seen<SendPlan>().back().device.value, "b");
  h.update("b");
  EXPECT_EQ(h.machine().version().value, 1U);
}

TEST(Round, SilentDevicesDoNotBlockARunForEver) {
  auto settings = test_settings();
  settings.planning.min_devices = 2;
  Harness h(settings);
  h.join("a");
  h.join("b");
  h.update("a");
  h.fire(Timer::deadline);
  ASSERT_EQ(h.machine().version().value, 1U);
  EXPECT_EQ(h.machine().phase(), Phase::waiting);  // b still owes its answer
  h.advance(std::chrono::minutes(10));
  h.fire(Timer::planning_retry);
  EXPECT_EQ(h.machine().phase(), Phase::collecting);
  EXPECT_NE(h.plan_of("b").value, 0U);
  EXPECT_EQ(h.machine().counters().lapsed_plans, 1U);
}

}  // namespace
}  // namespace gleaner::round
