#include <gmock/gmock.h>

#include "tests/storage/support.hpp"

namespace gleaner::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Log : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(database_->create_run(run_row())); }
  Folder folder_;
  std::unique_ptr<Database> database_ = *Database::open(folder_ / "a.db", Database::Access::serve);

  std::vector<std::uint32_t> patch_versions(std::uint32_t after, std::uint32_t up_to) {
    std::vector<std::uint32_t> found;
    for (const PatchRow& row : *database_->patches(kRun, {after}, {up_to})) found.push_back(row.version.value);
    return found;
  }
};

TEST_F(Log, replays_what_was_committed) {
  for (std::uint32_t version = 1; version <= 5; ++version) {
    ASSERT_TRUE(database_->commit(kRun, record_of(version, 1'000 * version)));
  }
  database_.reset();
  database_ = *Database::open(folder_ / "a.db", Database::Access::serve);
  EXPECT_EQ(compare_with_functions(*database_, kRun, 5), "");
  std::vector<std::uint32_t> seen;
  ASSERT_TRUE(database_->replay(kRun, {3}, [&](const CommitRecord& record) -> Status {
    seen.push_back(record.version.value);
    EXPECT_EQ(record.aggregate, record_of(record.version.value, 1'000 * record.version.value).aggregate);
    EXPECT_EQ(record.patch_clip, 0.125F);
    EXPECT_EQ(record.contributions, 3U);
    EXPECT_EQ(record.round, record.version.value);
    return {};
  }));
  EXPECT_THAT(seen, ElementsAre(4, 5));
}

TEST_F(Log, replay_hands_on_the_visitors_error_and_lets_it_use_the_database) {
  for (std::uint32_t version = 1; version <= 3; ++version) ASSERT_TRUE(database_->commit(kRun, record_of(version)));
  std::uint32_t visits = 0;
  const Status status = database_->replay(kRun, {0}, [&](const CommitRecord& record) -> Status {
    ++visits;
    GLEANER_TRY(database_->record_evaluation(kRun, record.version, 0.5, 1.5));
    if (record.version == Version{2}) return fail(ErrorCode::fatal, "enough");
    return {};
  });
  EXPECT_EQ(status.error().message(), "enough");
  EXPECT_EQ(visits, 2U);
}

TEST_F(Log, records_larger_than_a_chunk_come_back_whole) {
  for (const std::size_t size : {std::size_t{0}, kChunkBytesMax, kChunkBytesMax + 1, 2 * kChunkBytesMax + 17}) {
    const std::uint32_t version = database_->run(kRun)->version.value + 1;
    ASSERT_TRUE(database_->commit(kRun, record_of(version, size)));
  }
  EXPECT_EQ(compare_with_functions(*database_, kRun, 4), "");
  EXPECT_TRUE(database_->check());
}

TEST_F(Log, only_the_next_version_is_accepted) {
  ASSERT_TRUE(database_->commit(kRun, record_of(1)));
  const Status gap = database_->commit(kRun, record_of(3));
  EXPECT_EQ(gap.error().code(), ErrorCode::conflict);
  EXPECT_THAT(gap.error().message(), HasSubstr("version 3 cannot follow version 1"));
  CommitRecord old_round = record_of(2);
  old_round.round = 0;
  EXPECT_EQ(database_->commit(kRun, old_round).error().code(), ErrorCode::conflict);
  EXPECT_EQ(database_->run(kRun)->version, Version{1});
  EXPECT_EQ(database_->run(kRun)->rounds_done, 1U);
}

TEST_F(Log, the_same_record_again_changes_nothing_and_another_one_is_a_conflict) {
  ASSERT_TRUE(database_->issue_plans(kRun, {plan_row(1)}));
  CommitRecord record = record_of(1);
  record.answers = {answer_row(1)};
  ASSERT_TRUE(database_->commit(kRun, record));
  ASSERT_TRUE(database_->commit(kRun, record));
  EXPECT_EQ(database_->run(kRun)->rounds_done, 1U);
  record.model_hash ^= 1;
  EXPECT_EQ(database_->commit(kRun, record).error().code(), ErrorCode::conflict);
  record = record_of(1);
  record.answers = {answer_row(1, "a", Outcome::late)};
  EXPECT_EQ(database_->commit(kRun, record).error().code(), ErrorCode::conflict);
  EXPECT_TRUE(database_->check());
}

TEST_F(Log, a_round_without_a_version_stores_its_answers) {
  ASSERT_TRUE(database_->issue_plans(kRun, {plan_row(1), plan_row(2, "b")}));
  CommitRecord empty{.round = 1, .answers = {answer_row(1, "a", Outcome::skipped)}, .wall_unix_ms = 5};
  ASSERT_TRUE(database_->commit(kRun, empty));
  ASSERT_TRUE(database_->commit(kRun, empty)) << "a retry";
  EXPECT_EQ(database_->run(kRun)->version, Version{0});
  EXPECT_EQ(database_->run(kRun)->rounds_done, 1U);
  EXPECT_EQ((*database_->outcome_of(kRun, {1}))->outcome, Outcome::skipped);
  empty.answers = {answer_row(2, "b", Outcome::skipped)};
  EXPECT_EQ(database_->commit(kRun, empty).error().code(), ErrorCode::conflict) << "another record of the same round";
  CommitRecord contradictory = record_of(1);
  contradictory.round = 2;
  contradictory.version = {0};
  EXPECT_EQ(database_->commit(kRun, contradictory).error().code(), ErrorCode::bad_input);
  CommitRecord first = record_of(1);
  first.round = 2;
  ASSERT_TRUE(database_->commit(kRun, first));
  EXPECT_EQ(compare_with_functions(*database_, kRun, 1), "");
  EXPECT_TRUE(database_->check());
}

TEST_F(Log, answers_need_an_open_plan_of_that_device_and_an_outcome) {
  ASSERT_TRUE(database_->issue_plans(kRun, {plan_row(1)}));
  for (const AnswerRow& wrong : {answer_row(2), answer_row(1, "somebody-else"), answer_row(1, "a", Outcome::unknown)}) {
    CommitRecord record = record_of(1);
    record.answers = {wrong};
    EXPECT_FALSE(database_->commit(kRun, record));
  }
  EXPECT_EQ(database_->run(kRun)->version, Version{0}) << "all or nothing";
  EXPECT_EQ(database_->open_plans(kRun)->size(), 1U);
  EXPECT_TRUE(database_->check());
}

TEST_F(Log, rounds_tell_what_happened_in_them) {
  ASSERT_TRUE(database_->issue_plans(kRun, {plan_row(1, "c"), plan_row(2, "b"), plan_row(3, "a"), plan_row(4, "d")}));
  CommitRecord record = record_of(1);
  record.answers = {answer_row(1, "c"), answer_row(2, "b", Outcome::skipped), answer_row(3, "a"),
                    answer_row(4, "d", Outcome::refused)};
  ASSERT_TRUE(database_->commit(kRun, record));
  ASSERT_TRUE(database_->commit(kRun, CommitRecord{.round = 2}));
  ASSERT_TRUE(database_->record_evaluation(kRun, {1}, 0.875, 0.25));
  EXPECT_EQ(database_->record_evaluation(kRun, {0}, 0.5, 0.5).error().code(), ErrorCode::not_found);
  EXPECT_EQ(database_->record_evaluation(kRun, {2}, 0.5, 0.5).error().code(), ErrorCode::not_found);
  const auto rounds = database_->newest_rounds(kRun, 10);
  ASSERT_EQ(rounds->size(), 2U);
  const RoundRow& first = rounds->at(0);
  EXPECT_EQ(first.round, 1U);
  EXPECT_EQ(first.skips, 1U);
  EXPECT_EQ(first.refusals, 1U);
  EXPECT_THAT(first.left_sides, ElementsAre(3.5, 2.5, 1.5)) << "in device name order, without the refused one";
  EXPECT_EQ(first.accuracy, 0.875);
  EXPECT_EQ(first.loss, 0.25);
  EXPECT_EQ(first.traffic.down_index_bytes, 6U);
  EXPECT_EQ(first.duration_ms, 250U);
  EXPECT_EQ(rounds->at(1).version, Version{0});
  EXPECT_FALSE(rounds->at(1).accuracy);
  EXPECT_EQ(database_->newest_rounds(kRun, 1)->front().round, 2U);
}

TEST_F(Log, totals_are_those_of_all_rounds) {
  EXPECT_FALSE(database_->totals(kRun)->accuracy);
  ASSERT_TRUE(database_->issue_plans(
      kRun, {plan_row(1), plan_row(2, "b"), plan_row(3, "c"), plan_row(4, "d"), plan_row(5, "e")}));
  CommitRecord record = record_of(1);
  record.answers = {answer_row(1), answer_row(2, "b"), answer_row(3, "c", Outcome::refused)};
  ASSERT_TRUE(database_->commit(kRun, record));
  ASSERT_TRUE(database_->commit(kRun, {.round = 2, .answers = {answer_row(4, "d", Outcome::skipped)}}));
  record = record_of(2);
  record.round = 3;
  record.answers = {answer_row(5, "e", Outcome::stale)};
  record.late_uploads = 3;
  ASSERT_TRUE(database_->commit(kRun, record));
  ASSERT_TRUE(database_->record_evaluation(kRun, {1}, 0.5, 1.5));
  const RunTotals totals = *database_->totals(kRun);
  EXPECT_EQ(totals.uploads, 2U);
  EXPECT_EQ(totals.late_uploads, 3U);
  EXPECT_EQ(totals.skips, 1U);
  EXPECT_EQ(totals.refusals, 1U);
  EXPECT_EQ(totals.lapsed_plans, 1U);
  EXPECT_EQ(totals.empty_rounds, 1U);
  EXPECT_EQ(totals.traffic.up_bytes, 20U);
  EXPECT_EQ(totals.traffic.down_index_bytes, 12U);
  EXPECT_EQ(totals.devices_known, 0U);
  EXPECT_EQ(totals.evaluated, Version{1});
  EXPECT_EQ(totals.accuracy, 0.5);
  EXPECT_EQ(totals.loss, 1.5);
  ASSERT_TRUE(database_->record_evaluation(kRun, {2}, 0.75, 1.0));
  EXPECT_EQ(database_->totals(kRun)->evaluated, Version{2});
  ASSERT_TRUE(database_->end_run(kRun, {.rest = {.up_bytes = 7, .down_index_bytes = 1}, .devices_known = 9}));
  EXPECT_EQ(database_->run(kRun)->state, RunState::stopped);
  EXPECT_EQ(database_->totals(kRun)->traffic.up_bytes, 27U);
  EXPECT_EQ(database_->totals(kRun)->traffic.down_bytes, totals.traffic.down_bytes);
  EXPECT_EQ(database_->totals(kRun)->traffic.down_index_bytes, 13U);
  EXPECT_EQ(database_->totals(kRun)->devices_known, 9U);
}

TEST_F(Log, patches_and_bytes_are_counted_from_the_snapshot_on) {
  for (std::uint32_t version = 1; version <= 6; ++version) ASSERT_TRUE(database_->commit(kRun, record_of(version)));
  std::uint64_t expected = 0;
  for (std::uint32_t version = 1; version <= 6; ++version) expected += 5'000 + record_of(version).patch.size();
  EXPECT_EQ(*database_->log_bytes_since_snapshot(kRun), expected);
  ASSERT_TRUE(write_snapshot(*database_, kRun, 4, 1'000, 1));
  EXPECT_EQ(*database_->log_bytes_since_snapshot(kRun), 10'000 + record_of(5).patch.size() + record_of(6).patch.size());
  EXPECT_THAT(patch_versions(2, 4), ElementsAre(3, 4));
  ASSERT_TRUE(write_snapshot(*database_, kRun, 6, 1'000, 1));
  EXPECT_EQ(*database_->log_bytes_since_snapshot(kRun), 0U);
  EXPECT_THAT(patch_versions(0, 100), ElementsAre(5, 6)) << "the replay from the kept snapshot 4 needs them";
  EXPECT_EQ(database_->patches(kRun, {4}, {5})->front().patch, record_of(5).patch);
  EXPECT_EQ(database_->patches(kRun, {4}, {5})->front().clip, 0.125F);
}

}  // namespace
}  // namespace gleaner::test
