// Every way in which a full disk or an exhausted quota shows itself is no_space, changes nothing and is got over.
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "tests/storage/disk_faults.hpp"
#include "tests/storage/support.hpp"

namespace gleaner::test {
namespace {

using testing::HasSubstr;

class Faults : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(database_->create_run(run_row()));
    ASSERT_TRUE(database_->commit(kRun, record_of(1)));
  }
  void reopen() {
    database_.reset();
    database_ = *Database::open(path_, Database::Access::serve);
  }
  void expect_state(std::uint32_t version) {
    EXPECT_EQ(database_->run(kRun)->version.value, version);
    EXPECT_EQ(compare_with_functions(*database_, kRun, version), "");
    const Status checked = database_->check();
    EXPECT_TRUE(checked) << checked.error().message();
  }
  // No space, and nothing else, comes of every error that a full disk has at this call.
  template <class Work>
  void expect_no_space(DiskCall call, const std::string& path_end, const Work& work) {
    for (const int system_error : {ENOSPC, EDQUOT}) {
      const DiskFault fault(call, path_end, system_error);
      const Status status = work();
      EXPECT_GT(fault.hits(), 0) << path_end << ": " << std::strerror(system_error);
      ASSERT_FALSE(status) << path_end << ": " << std::strerror(system_error);
      EXPECT_EQ(status.error().code(), ErrorCode::no_space) << status.error().message();
      EXPECT_THAT(status.error().message(), HasSubstr(folder_ / ""));
    }
  }

  Folder folder_{Folder::Place::memory};
  const std::string path_ = folder_ / "a.db";
  std::unique_ptr<Database> database_ = *Database::open(path_, Database::Access::serve);
};

TEST_F(Faults, of_space_in_a_commit_are_got_over) {
  for (std::uint32_t version = 2; const DiskCall call : {DiskCall::write, DiskCall::flush}) {
    expect_no_space(call, "a.db-wal", [&] { return database_->commit(kRun, record_of(version, 300'000)); });
    expect_state(version - 1);
    ASSERT_TRUE(database_->commit(kRun, record_of(version, 300'000)));
    expect_state(version++);
  }
  expect_no_space(DiskCall::flush, "a.db-wal", [&] { return database_->issue_plans(kRun, {plan_row(1)}); });
  EXPECT_TRUE(database_->open_plans(kRun)->empty());
  ASSERT_TRUE(database_->issue_plans(kRun, {plan_row(1)}));
  reopen();
  expect_state(3);
  EXPECT_EQ(database_->open_plans(kRun)->size(), 1U);
}

TEST_F(Faults, of_space_in_a_fold_leave_the_log_for_the_next_one) {
  for (const DiskCall call : {DiskCall::write, DiskCall::flush}) {
    ASSERT_TRUE(database_->audit("a", "b", "c"));
    expect_no_space(call, "a.db", [&] { return database_->checkpoint(); });
    expect_state(1);
    ASSERT_TRUE(database_->checkpoint());
    expect_state(1);
  }
}

TEST_F(Faults, of_space_in_pieces_of_a_snapshot_leave_it_to_be_finished) {
  const Bytes bytes = snapshot_of(1, 200'000);
  const auto append = [&](std::size_t at) {
    return database_->append_snapshot(kRun, {1}, ByteView(bytes).subspan(at, 100'000));
  };
  expect_no_space(DiskCall::write, "a.db-wal", [&] { return database_->begin_snapshot(kRun, {1}, bytes.size()); });
  ASSERT_TRUE(database_->begin_snapshot(kRun, {1}, bytes.size()));
  expect_no_space(DiskCall::write, "a.db-wal", [&] { return append(0); });
  ASSERT_TRUE(append(0));
  expect_no_space(DiskCall::write, "a.db-wal", [&] { return append(100'000); });
  ASSERT_TRUE(append(100'000));
  expect_no_space(DiskCall::write, "a.db-wal", [&] { return database_->finish_snapshot(kRun, {1}, 0); });
  ASSERT_TRUE(database_->finish_snapshot(kRun, {1}, 0));
  expect_state(1);
  EXPECT_EQ((*database_->newest_snapshot(kRun))->bytes, bytes);
}

// A piece does not wait for the disk: a flush that fails after it may have lost it, and nothing would write it again.
TEST_F(Faults, of_a_flush_after_a_deferred_write_are_fatal) {
  ASSERT_TRUE(database_->begin_snapshot(kRun, {1}, 200'000));
  ASSERT_TRUE(database_->append_snapshot(kRun, {1}, snapshot_of(1, 100'000)));
  {
    const DiskFault fault(DiskCall::flush, "a.db-wal", ENOSPC);
    EXPECT_EQ(database_->commit(kRun, record_of(2)).error().code(), ErrorCode::fatal);
  }
  reopen();
  expect_state(1);
  ASSERT_TRUE(database_->commit(kRun, record_of(2)));
  expect_no_space(DiskCall::flush, "a.db-wal", [&] { return database_->commit(kRun, record_of(3)); });
}

TEST_F(Faults, of_space_in_a_copy_leave_nothing_behind) {
  for (const DiskCall call : {DiskCall::write, DiskCall::flush}) {
    expect_no_space(call, "copy.db.partial", [&] { return database_->backup(folder_ / "copy.db"); });
    EXPECT_FALSE(std::filesystem::exists(folder_ / "copy.db"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "copy.db.partial"));
  }
  EXPECT_TRUE(database_->backup(folder_ / "copy.db"));
}

TEST_F(Faults, of_space_at_the_lock_file_and_at_the_start_keep_the_lineage) {
  database_.reset();
  const auto open = [&]() -> Status {
    GLEANER_TRY(Database::open(path_, Database::Access::serve));
    return {};
  };
  for (const DiskCall call : {DiskCall::write, DiskCall::truncate, DiskCall::flush}) {
    expect_no_space(call, "a.db.lock", open);
  }
  expect_no_space(DiskCall::write, "a.db-wal", open);
  expect_no_space(DiskCall::flush, "a.db-wal", open);
  reopen();
  EXPECT_EQ(database_->run(kRun)->lineage, run_row().lineage) << "a failed start is no swap of the file";
  expect_state(1);
}

TEST_F(Faults, of_other_kinds_are_fatal_and_say_what_to_do) {
  for (const auto& [system_error, hint] : {std::pair{EIO, "check the disk"}, std::pair{EFBIG, "ulimit -f"}}) {
    const DiskFault fault(DiskCall::write, "a.db-wal", system_error);
    const Status status = database_->commit(kRun, record_of(2));
    EXPECT_EQ(status.error().code(), ErrorCode::fatal);
    EXPECT_THAT(status.error().message(), HasSubstr(hint));
    EXPECT_THAT(status.error().message(), HasSubstr(std::strerror(system_error)));
  }
  reopen();
  expect_state(1);
}

TEST_F(Faults, of_a_disk_that_may_only_be_read_say_so) {
  database_.reset();
  const std::string disk = folder_ / "disk";
  std::filesystem::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", MS_RDONLY, "size=1m") != 0) {
    GTEST_SKIP() << "a read-only file system cannot be mounted here: " << std::strerror(errno);
  }
  const auto opened = Database::open(disk + "/a.db", Database::Access::serve);
  ::umount2(disk.c_str(), MNT_DETACH);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), ErrorCode::bad_input);
  EXPECT_THAT(opened.error().message(), HasSubstr("a.db.lock: cannot be written (Read-only file system)"));
}

}  // namespace
}  // namespace gleaner::test
