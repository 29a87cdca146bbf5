#include "scheduling/round_close.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace gleaner {
namespace {

RoundProgress ten() {
  return {.planned = 13,
          .answers = 0,
          .failed = 0,
          .connected = 13,
          .answers_wanted = 8,
          .answers_min = 3,
          .deadline = DeadlineState::running,
          .all_must_answer = false};
}

TEST(RoundClose, WaitsUntilTheQuorum) {
  RoundProgress progress = ten();
  progress.answers = 7;
  EXPECT_EQ(judge_round(progress), RoundVerdict::wait);
  progress.answers = 8;
  EXPECT_EQ(judge_round(progress), RoundVerdict::close);
}

TEST(RoundClose, TheDeadlineClosesOrAbandons) {
  RoundProgress progress = ten();
  progress.deadline = DeadlineState::passed;
  progress.answers = 3;
  EXPECT_EQ(judge_round(progress), RoundVerdict::close);
  progress.answers = 2;
  EXPECT_EQ(judge_round(progress), RoundVerdict::abandon);
}

TEST(RoundClose, NothingOpenAnyMore) {
  RoundProgress progress = ten();
  progress.answers = 4;
  progress.failed = 9;
  EXPECT_EQ(judge_round(progress), RoundVerdict::close);
  progress.answers = 0;
  progress.failed = 13;
  EXPECT_EQ(judge_round(progress), RoundVerdict::abandon);
}

TEST(RoundClose, EverybodyGone) {
  RoundProgress progress = ten();
  progress.connected = 0;
  progress.answers = 4;
  EXPECT_EQ(judge_round(progress), RoundVerdict::wait) << "they may come back before the deadline";
  progress.deadline = DeadlineState::none;
  EXPECT_EQ(judge_round(progress), RoundVerdict::close);
  progress.answers = 2;
  EXPECT_EQ(judge_round(progress), RoundVerdict::wait);
}

TEST(RoundClose, ReproducibleRoundsWaitForTheAbsent) {
  RoundProgress progress = ten();
  progress.answers_wanted = 13;
  progress.all_must_answer = true;
  progress.deadline = DeadlineState::none;
  progress.connected = 0;
  progress.answers = 12;
  EXPECT_EQ(judge_round(progress), RoundVerdict::wait);
  progress.answers = 13;
  EXPECT_EQ(judge_round(progress), RoundVerdict::close);
}

TEST(RoundClose, OneDevice) {
  RoundProgress progress{.planned = 1, .answers = 1, .failed = 0, .connected = 0, .answers_wanted = 1};
  EXPECT_EQ(judge_round(progress), RoundVerdict::close);
  progress.answers = 0;
  EXPECT_EQ(judge_round(progress), RoundVerdict::wait);
  progress.failed = 1;
  EXPECT_EQ(judge_round(progress), RoundVerdict::abandon);
}

RC_GTEST_PROP(RoundClose, MoreAnswersNeverUndoAClose, ()) {
  RoundProgress progress = ten();
  progress.planned = *rc::gen::inRange(1U, 20U);
  progress.answers = *rc::gen::inRange(0U, progress.planned);
  progress.failed = *rc::gen::inRange(0U, progress.planned - progress.answers);
  progress.connected = *rc::gen::inRange(0U, 20U);
  progress.answers_wanted = *rc::gen::inRange(1U, 20U);
  progress.answers_min = *rc::gen::inRange(0U, 20U);
  progress.deadline = *rc::gen::element(DeadlineState::none, DeadlineState::running, DeadlineState::passed);
  progress.all_must_answer = *rc::gen::arbitrary<bool>();
  const auto before = judge_round(progress);
  RC_ASSERT(before != RoundVerdict::close || progress.answers > 0U);
  ++progress.answers;
  if (before == RoundVerdict::close) RC_ASSERT(judge_round(progress) == RoundVerdict::close);
}

}  // namespace
}  // namespace gleaner
