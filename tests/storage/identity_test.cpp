#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "common/text.hpp"
#include "storage/schema.hpp"
#include "tests/storage/support.hpp"

namespace gleaner::test {
namespace {

using testing::HasSubstr;

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Identity : public testing::Test {
 protected:
  Folder folder_;
  const std::string path_ = folder_ / "a.db";

  static std::unique_ptr<Database> serve(const std::string& path) {
    auto database = Database::open(path, Database::Access::serve);
    EXPECT_TRUE(database) << database.error().message();
    return database ? std::move(*database) : nullptr;
  }
  // A run with a divisor, an answered plan 1 and an open plan 2.
  void make_run() {
    const auto database = serve(path_);
    ASSERT_TRUE(database->create_run(run_row()));
    ASSERT_TRUE(database->set_divisor(kRun, 2.0));
    ASSERT_TRUE(database->issue_plans(kRun, {plan_row(1), plan_row(2, "b")}));
    CommitRecord record = record_of(1);
    record.answers = {answer_row(1)};
    ASSERT_TRUE(database->commit(kRun, record));
  }
  static void expect_new_lineage(Database& database) {
    const RunRow row = *database.run(kRun);
    EXPECT_NE(row.lineage, run_row().lineage);
    EXPECT_EQ(row.divisor, 0.0);
    EXPECT_GT(row.next_plan.value, 1ULL << 32) << "ids that were issued after the copy must not come again";
    EXPECT_EQ(row.version, Version{1});
    EXPECT_TRUE(database.open_plans(kRun)->empty());
    EXPECT_EQ((*database.outcome_of(kRun, {1}))->outcome, Outcome::included);
    EXPECT_EQ((*database.outcome_of(kRun, {2}))->outcome, Outcome::abandoned);
    EXPECT_TRUE(database.check());
  }
  static void expect_old_lineage(Database& database) {
    EXPECT_EQ(database.run(kRun)->lineage, run_row().lineage);
    EXPECT_EQ(database.run(kRun)->divisor, 2.0);
    EXPECT_EQ(database.open_plans(kRun)->size(), 1U);
  }
};

TEST_F(Identity, one_file_is_served_once) {
  auto first = serve(path_);
  std::filesystem::create_symlink(path_, folder_ / "alias.db");
  for (const std::string& name : {path_, folder_ / "alias.db"}) {
    const auto second = Database::open(name, Database::Access::serve);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code(), ErrorCode::conflict);
    EXPECT_THAT(second.error().message(), HasSubstr(path_));
    EXPECT_THAT(second.error().message(), HasSubstr(fmt::format("process {} ", ::getpid())));
  }
  first.reset();
  EXPECT_TRUE(serve(path_));
}

TEST_F(Identity, a_folder_that_is_not_there_is_the_users_mistake) {
  const auto database = Database::open(folder_ / "nowhere/a.db", Database::Access::serve);
  EXPECT_EQ(database.error().code(), ErrorCode::bad_input);
  EXPECT_THAT(database.error().message(), HasSubstr("folder does not exist"));
}

TEST_F(Identity, serving_again_keeps_the_lineage_and_renews_the_token) {
  make_run();
  const std::string before = text_of(path_ + ".lock");
  expect_old_lineage(*serve(path_));
  EXPECT_NE(text_of(path_ + ".lock"), before);
  expect_old_lineage(*serve(path_));
}

TEST_F(Identity, a_crash_while_the_token_changes_is_no_swap) {
  make_run();
  const std::string token = text_of(path_ + ".lock").substr(7, 16);
  // The lock file was written, the database not yet.
  std::ofstream(path_ + ".lock") << "tokens 0000000000000001 " << token << "\npid 1\n";
  expect_old_lineage(*serve(path_));
  // Both were written, but the lock file still knows the token before.
  const std::string newest = text_of(path_ + ".lock").substr(7, 16);
  std::ofstream(path_ + ".lock") << "tokens " << newest << " " << token << "\npid 1\n";
  expect_old_lineage(*serve(path_));
}

TEST_F(Identity, an_older_file_put_in_place_starts_new_lineages) {
  make_run();
  std::filesystem::copy_file(path_, folder_ / "old.db");
  serve(path_).reset();
  std::filesystem::copy_file(folder_ / "old.db", path_, std::filesystem::copy_options::overwrite_existing);
  expect_new_lineage(*serve(path_));
  const Lineage lineage = serve(path_)->run(kRun)->lineage;
  EXPECT_EQ(serve(path_)->run(kRun)->lineage, lineage) << "once is enough";
}

TEST_F(Identity, a_file_without_its_lock_file_starts_new_lineages) {
  make_run();
  std::filesystem::remove(path_ + ".lock");
  expect_new_lineage(*serve(path_));
}

TEST_F(Identity, a_backup_starts_new_lineages_wherever_it_is_served) {
  make_run();
  auto database = serve(path_);
  ASSERT_TRUE(database->backup(folder_ / "copy.db"));
  expect_old_lineage(*database);
  database.reset();
  std::filesystem::copy_file(folder_ / "copy.db", folder_ / "elsewhere.db");
  expect_new_lineage(*serve(folder_ / "elsewhere.db"));
  // The lock file knows the very token that the copy has; the mark alone tells.
  std::filesystem::rename(folder_ / "copy.db", path_);
  database = serve(path_);
  expect_new_lineage(*database);
  const Lineage lineage = database->run(kRun)->lineage;
  database.reset();
  EXPECT_EQ(serve(path_)->run(kRun)->lineage, lineage);
}

TEST_F(Identity, a_backup_is_one_whole_file_and_replaces_nothing) {
  make_run();
  const auto database = serve(path_);
  ASSERT_TRUE(write_snapshot(*database, kRun, 1, 9'000'000, 0));
  ASSERT_TRUE(database->backup(folder_ / "copy.db"));
  EXPECT_EQ(database->backup(folder_ / "copy.db").error().code(), ErrorCode::conflict);
  EXPECT_FALSE(database->backup(folder_ / "nowhere/copy.db"));
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(path_).parent_path())) {
    const std::string name = entry.path().filename();
    EXPECT_FALSE(name.starts_with("copy.db") && name != "copy.db") << name;
  }
  const auto copy = Database::open(folder_ / "copy.db", Database::Access::inspect);
  ASSERT_TRUE(copy) << copy.error().message();
  EXPECT_EQ((*copy)->run(kRun)->lineage, run_row().lineage);
  EXPECT_TRUE((*copy)->check());
  EXPECT_EQ(compare_with_functions(**copy, kRun, 1), "");
}

// What a crash leaves: the file and its write-ahead log as they are while they are served.
void copy_as_after_a_crash(const std::string& from, const std::string& to) {
  for (const char* end : {"", "-wal"}) std::filesystem::copy_file(from + end, to + end);
}

TEST_F(Identity, a_restored_backup_is_kept_from_the_log_of_the_file_that_it_replaces) {
  make_run();
  {
    const auto database = serve(path_);
    ASSERT_TRUE(database->backup(folder_ / "copy.db"));
    for (std::uint32_t version = 2; version <= 9; ++version) {
      ASSERT_TRUE(database->commit(kRun, record_of(version, 200'000)));
    }
    copy_as_after_a_crash(path_, folder_ / "crashed.db");
  }
  std::filesystem::rename(folder_ / "copy.db", folder_ / "crashed.db");
  const auto database = serve(folder_ / "crashed.db");
  expect_new_lineage(*database);
  EXPECT_EQ(compare_with_functions(*database, kRun, 1), "");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "crashed.db-wal.replaced"));
}

TEST_F(Identity, a_restored_backup_that_crashes_keeps_what_it_did_since) {
  make_run();
  ASSERT_TRUE(serve(path_)->backup(folder_ / "copy.db"));
  {
    const auto database = serve(folder_ / "copy.db");
    ASSERT_TRUE(database->commit(kRun, record_of(2)));
    copy_as_after_a_crash(folder_ / "copy.db", folder_ / "crashed.db");
  }
  const auto database = serve(folder_ / "crashed.db");
  EXPECT_EQ(compare_with_functions(*database, kRun, 2), "");
  EXPECT_TRUE(database->check());
}

TEST_F(Identity, nothing_is_stored_in_a_file_that_lost_its_name) {
  const std::string aside = folder_ / "aside.db";
  make_run();
  auto database = serve(path_);
  std::filesystem::rename(path_, aside);
  const auto refuses_all = [&database] {
    for (const Status& status :
         {database->commit(kRun, record_of(2)), database->issue_plans(kRun, {plan_row(3)}),
          database->create_run(run_row("other", {2})), database->set_run_state(kRun, RunState::paused),
          database->begin_snapshot(kRun, {1}, 10), database->audit("a", "b", "c"), database->check()}) {
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code(), ErrorCode::no_space);
      EXPECT_THAT(status.error().message(), HasSubstr("removed, moved or replaced"));
    }
  };
  refuses_all();
  std::filesystem::copy_file(aside, path_);
  refuses_all();  // another file under the name is no better
  EXPECT_EQ(database->run(kRun)->version, Version{1});
  ASSERT_TRUE(database->backup(folder_ / "saved.db")) << "what is known can be saved";
  std::filesystem::rename(aside, path_);
  EXPECT_TRUE(database->commit(kRun, record_of(2))) << "goes on when the file is back";
  EXPECT_TRUE(database->check());
  database.reset();
  EXPECT_EQ(serve(folder_ / "saved.db")->run(kRun)->version, Version{1});
}

TEST_F(Identity, neither_another_name_nor_a_removed_lock_file_lets_a_second_in) {
  make_run();
  const std::string other = folder_ / "other.db";
  std::filesystem::create_hard_link(path_, other);
  const auto database = serve(path_);
  std::filesystem::remove(path_ + ".lock");
  for (const std::string& name : {other, path_}) {
    const auto second = Database::open(name, Database::Access::serve);
    ASSERT_FALSE(second) << name;
    EXPECT_EQ(second.error().code(), ErrorCode::conflict);
    EXPECT_THAT(second.error().message(), HasSubstr("served by another process already"));
    EXPECT_FALSE(std::filesystem::exists(name + ".lock")) << "made for nothing";
  }
  EXPECT_TRUE(database->commit(kRun, record_of(2)));
}

TEST_F(Identity, what_is_no_database_gets_no_lock_file) {
  const std::string text = folder_ / "text";
  const std::string damaged = folder_ / "damaged";
  const std::string pipe = folder_ / "pipe";
  std::ofstream(text) << "root:x:0:0:root:/root:/bin/bash";
  std::ofstream(damaged) << std::string("SQLite format 3\0", 16) << std::string(5'000, 'x');
  const std::string sub = folder_ / "sub";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_directory(sub);
  {
    const auto theirs = Connection::open(folder_ / "theirs", Connection::Mode::write, {});
    ASSERT_TRUE((*theirs)->script("CREATE TABLE theirs (a INTEGER);"));
  }
  const std::pair<std::string, ErrorCode> wrong[] = {{text, ErrorCode::corrupt},
                                                     {damaged, ErrorCode::corrupt},
                                                     {pipe, ErrorCode::bad_input},
                                                     {sub, ErrorCode::bad_input},
                                                     {folder_ / "theirs", ErrorCode::bad_input}};
  for (const auto& [path, code] : wrong) {
    const auto opened = Database::open(path, Database::Access::serve);
    ASSERT_FALSE(opened) << path;
    EXPECT_EQ(opened.error().code(), code) << opened.error().message();
    EXPECT_FALSE(std::filesystem::exists(path + ".lock")) << path;
    EXPECT_THAT(opened.error().message(), testing::Not(HasSubstr("No such file"))) << "of another call's making";
  }
  EXPECT_EQ(text_of(text).size(), 31U);
}

TEST_F(Identity, inspection_disturbs_nothing_beside_a_running_service) {
  make_run();
  const auto service = serve(path_);
  const auto inspector = *Database::open(path_, Database::Access::inspect);
  ASSERT_TRUE(service->checkpoint());
  const auto file_bytes = std::filesystem::file_size(path_);
  for (std::uint32_t version = 2; version <= 20; ++version) {
    ASSERT_TRUE(service->commit(kRun, record_of(version)));
    EXPECT_EQ(inspector->run(kRun)->version, Version{version});
  }
  EXPECT_TRUE(inspector->check());
  EXPECT_EQ(compare_with_functions(*inspector, kRun, 20), "");
  EXPECT_FALSE(inspector->commit(kRun, record_of(21)));
  EXPECT_FALSE(inspector->audit("a", "b", "c"));
  {
    const auto another = *Database::open(path_, Database::Access::inspect);
    EXPECT_TRUE(another->check());
  }
  EXPECT_EQ(std::filesystem::file_size(path_), file_bytes) << "only the service folds the log back";
  ASSERT_TRUE(service->commit(kRun, record_of(21)));
  ASSERT_TRUE(service->checkpoint());
  EXPECT_GT(std::filesystem::file_size(path_), file_bytes);
  EXPECT_TRUE(inspector->check());
}

TEST_F(Identity, inspection_of_what_is_not_there_makes_no_file) {
  EXPECT_EQ(Database::open(path_, Database::Access::inspect).error().code(), ErrorCode::not_found);
  EXPECT_FALSE(std::filesystem::exists(path_));
  std::ofstream(path_).close();
  EXPECT_EQ(Database::open(path_, Database::Access::inspect).error().code(), ErrorCode::bad_input);
}

TEST_F(Identity, the_write_ahead_log_is_folded_back_when_it_outgrows_its_bound) {
  const auto database = *SqliteDatabase::open(path_, Database::Access::serve, {.wal_bytes_max = 4U << 20});
  ASSERT_TRUE(database->create_run(run_row()));
  for (std::uint32_t version = 1; version <= 40; ++version) {
    ASSERT_TRUE(database->commit(kRun, record_of(version, 1'000'000)));
    EXPECT_LE(std::filesystem::file_size(path_ + "-wal"), 7U << 20);
  }
  EXPECT_EQ(compare_with_functions(*database, kRun, 40), "");
}

}  // namespace
}  // namespace gleaner::test
