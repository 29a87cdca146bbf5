#include <gmock/gmock.h>

#include <cmath>

#include "tests/storage/support.hpp"

namespace gleaner::test {
namespace {

using testing::HasSubstr;

class Runs : public testing::Test {
 protected:
  Folder folder_;
  std::unique_ptr<Database> database_ = *Database::open(folder_ / "a.db", Database::Access::serve);

  void reopen() {
    database_.reset();
    database_ = *Database::open(folder_ / "a.db", Database::Access::serve);
  }
};

TEST_F(Runs, are_listed_in_order_of_creation_and_survive_reopening) {
  RunRow first = run_row("zebra", {3});
  first.settings = std::string("text with \0 and \xff", 17);
  first.divisor = 12.75;
  ASSERT_TRUE(database_->create_run(first));
  ASSERT_TRUE(database_->create_run(run_row("ant", kRun)));
  reopen();
  const auto rows = database_->runs();
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 2U);
  EXPECT_EQ(rows->at(0).name, "zebra");
  EXPECT_EQ(rows->at(0).settings, first.settings);
  EXPECT_EQ(rows->at(0).divisor, 12.75);
  EXPECT_EQ(rows->at(0).next_plan, PlanId{1});
  EXPECT_EQ(rows->at(1).id, kRun);
  EXPECT_EQ(rows->at(1).lineage, first.lineage);
  EXPECT_EQ(rows->at(1).created_unix_ms, 1'700'000'000'000);
}

TEST_F(Runs, with_a_taken_name_are_a_conflict) {
  ASSERT_TRUE(database_->create_run(run_row("demo", {1})));
  const Status again = database_->create_run(run_row("demo", {2}));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), ErrorCode::conflict);
  EXPECT_THAT(again.error().message(), HasSubstr("\"demo\""));
  EXPECT_EQ(database_->runs()->size(), 1U);
}

TEST_F(Runs, that_do_not_exist_are_not_found) {
  EXPECT_EQ(database_->run(kRun).error().code(), ErrorCode::not_found);
  EXPECT_EQ(database_->set_run_state(kRun, RunState::paused).error().code(), ErrorCode::not_found);
  EXPECT_EQ(database_->end_run(kRun, {}).error().code(), ErrorCode::not_found);
  EXPECT_EQ(database_->set_divisor(kRun, 1.0).error().code(), ErrorCode::not_found);
  EXPECT_EQ(database_->set_lineage(kRun, {1}).error().code(), ErrorCode::not_found);
  EXPECT_EQ(database_->issue_plans(kRun, {}).error().code(), ErrorCode::not_found);
  EXPECT_EQ(database_->commit(kRun, record_of(1)).error().code(), ErrorCode::not_found);
  EXPECT_EQ(database_->begin_snapshot(kRun, {0}, 1).error().code(), ErrorCode::not_found);
}

TEST_F(Runs, keep_state_and_divisor_until_a_new_lineage) {
  ASSERT_TRUE(database_->create_run(run_row()));
  ASSERT_TRUE(database_->set_run_state(kRun, RunState::paused));
  ASSERT_TRUE(database_->set_divisor(kRun, 0.1));
  EXPECT_EQ(database_->run(kRun)->state, RunState::paused);
  EXPECT_EQ(database_->run(kRun)->divisor, 0.1);
  ASSERT_TRUE(database_->set_lineage(kRun, {7}));
  EXPECT_EQ(database_->run(kRun)->lineage, Lineage{7});
  EXPECT_EQ(database_->run(kRun)->divisor, 0.0);
}

TEST_F(Runs, have_states_with_names) {
  EXPECT_EQ(to_string(RunState::active), "active");
  EXPECT_EQ(to_string(RunState::waiting), "waiting");
  EXPECT_EQ(to_string(static_cast<RunState>(99)), "unknown");
}

TEST_F(Runs, plans_are_open_until_answered_and_ids_never_come_again) {
  ASSERT_TRUE(database_->create_run(run_row()));
  const std::vector<PlanRow> plans = {plan_row(1, "a"), plan_row(2, "b"), plan_row(5, "c")};
  ASSERT_TRUE(database_->issue_plans(kRun, plans));
  EXPECT_EQ(database_->run(kRun)->next_plan, PlanId{6});
  ASSERT_TRUE(database_->issue_plans(kRun, plans)) << "a retry after an unclear result";
  EXPECT_EQ(database_->issue_plans(kRun, {plan_row(2, "other")}).error().code(), ErrorCode::conflict);
  EXPECT_EQ(database_->issue_plans(kRun, {plan_row(4, "d")}).error().code(), ErrorCode::conflict);

  CommitRecord record = record_of(1);
  record.answers = {answer_row(2, "b")};
  ASSERT_TRUE(database_->commit(kRun, record));
  reopen();
  const auto open = database_->open_plans(kRun);
  ASSERT_EQ(open->size(), 2U);
  EXPECT_EQ(open->at(0).device.value, "a");
  EXPECT_EQ(open->at(0).threshold, 0.25F);
  EXPECT_EQ(open->at(0).clip_exponent, -3);
  EXPECT_EQ(open->at(0).weight_bits, 20);
  EXPECT_EQ(open->at(0).steps_max, 7U);
  EXPECT_EQ(open->at(1).id, PlanId{5});
  EXPECT_EQ(database_->issue_plans(kRun, {plan_row(2, "b")}).error().code(), ErrorCode::conflict) << "it was answered";
}

// They stay beside their answers until the next plans are issued, and no longer: the table must not grow.
TEST_F(Runs, rows_of_answered_plans_go_with_the_next_plans) {
  ASSERT_TRUE(database_->create_run(run_row()));
  const auto plan_rows = [&] {
    const auto reader = *Connection::open(folder_ / "a.db", Connection::Mode::read, {});
    return (*reader->first<std::uint32_t>("SELECT count(*) FROM plan")).value();
  };
  for (std::uint32_t round = 1; round <= 5; ++round) {
    ASSERT_TRUE(database_->issue_plans(kRun, {plan_row(2 * round, "a", round), plan_row(2 * round + 1, "b", round)}));
    EXPECT_EQ(plan_rows(), round + 1) << "b never answers";
    CommitRecord record = record_of(round);
    record.answers = {answer_row(2 * round)};
    ASSERT_TRUE(database_->commit(kRun, record));
    EXPECT_EQ(database_->open_plans(kRun)->size(), round);
    record.answers = {answer_row(2 * round)};
    record.version = {round + 1};
    record.round = round + 1;
    EXPECT_EQ(database_->commit(kRun, record).error().code(), ErrorCode::conflict) << "it was answered";
    ASSERT_TRUE(database_->check());
  }
}

TEST_F(Runs, outcomes_are_kept_and_the_newest_of_each_device_is_found) {
  ASSERT_TRUE(database_->create_run(run_row()));
  ASSERT_TRUE(database_->issue_plans(kRun, {plan_row(1, "a"), plan_row(2, "b"), plan_row(3, "a"), plan_row(4, "c")}));
  CommitRecord record = record_of(1);
  record.answers = {answer_row(1, "a"), answer_row(2, "b", Outcome::refused)};
  record.answers[1].loss = std::nanf("");
  ASSERT_TRUE(database_->commit(kRun, record));
  record = record_of(2);
  record.answers = {answer_row(3, "a", Outcome::skipped)};
  ASSERT_TRUE(database_->commit(kRun, record));

  const auto outcome = database_->outcome_of(kRun, {2});
  ASSERT_TRUE(outcome && *outcome);
  EXPECT_EQ((*outcome)->outcome, Outcome::refused);
  EXPECT_EQ((*outcome)->refusal, RefusalCode::non_finite);
  EXPECT_EQ((*outcome)->digest, answer_row(2).digest);
  EXPECT_FALSE(*database_->outcome_of(kRun, {4}));
  EXPECT_FALSE(*database_->outcome_of(kRun, {99}));

  const auto last = database_->last_answers(kRun);
  ASSERT_EQ(last->size(), 2U);
  EXPECT_EQ(last->at(0).plan, PlanId{3});
  EXPECT_EQ(last->at(0).outcome, Outcome::skipped);
  EXPECT_EQ(last->at(0).left, 3.5F);
  EXPECT_EQ(last->at(1).plan, PlanId{2});
  EXPECT_TRUE(std::isnan(last->at(1).loss));
}

TEST_F(Runs, devices_are_updated_but_only_revoked_on_purpose) {
  DeviceRow row{.name = {"b"}, .certificate_serial = "01", .first_seen_unix_ms = 5, .last_seen_unix_ms = 6};
  row.uplink_bytes_per_s = 1e6;
  ASSERT_TRUE(database_->upsert_device(row));
  ASSERT_TRUE(database_->revoke_device({"b"}, Database::Unseen::refuse));
  EXPECT_EQ(database_->revoke_device({"a"}, Database::Unseen::refuse).error().code(), ErrorCode::not_found);
  EXPECT_EQ(database_->devices()->size(), 1U);
  ASSERT_TRUE(database_->revoke_device({"a"}, Database::Unseen::add)) << "stolen before it was ever used";
  row.first_seen_unix_ms = 99;
  row.last_seen_unix_ms = 100;
  row.up_bytes = 0xffff'ffff'ffff'ffffULL;
  row.revoked = false;
  ASSERT_TRUE(database_->upsert_device(row));
  reopen();
  const auto devices = database_->devices();
  ASSERT_EQ(devices->size(), 2U);
  EXPECT_EQ(devices->at(0).name.value, "a");
  EXPECT_TRUE(devices->at(0).revoked);
  EXPECT_EQ(devices->at(1).first_seen_unix_ms, 5);
  EXPECT_EQ(devices->at(1).last_seen_unix_ms, 100);
  EXPECT_EQ(devices->at(1).up_bytes, 0xffff'ffff'ffff'ffffULL);
  EXPECT_EQ(devices->at(1).uplink_bytes_per_s, 1e6);
  EXPECT_TRUE(devices->at(1).revoked);
  ASSERT_TRUE(database_->allow_device({"b"}));
  EXPECT_FALSE(database_->devices()->at(1).revoked);
  EXPECT_EQ(database_->allow_device({"nobody"}).error().code(), ErrorCode::not_found);
}

TEST_F(Runs, audit_lines_come_oldest_first) {
  ASSERT_TRUE(database_->audit("operator-a", "run.start", "demo"));
  ASSERT_TRUE(database_->audit("operator-b", "run.stop", "demo"));
  ASSERT_TRUE(database_->audit("operator-c", "devices.revoke", "jetson-7"));
  const auto lines = database_->newest_audit(2);
  ASSERT_EQ(lines->size(), 2U);
  EXPECT_THAT(lines->at(0), testing::EndsWith("Z operator-b run.stop demo"));
  EXPECT_THAT(lines->at(1), testing::EndsWith("Z operator-c devices.revoke jetson-7"));
}

}  // namespace
}  // namespace gleaner::test
