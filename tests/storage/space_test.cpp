// Full disks and failing ones: nothing half written, and the same connection goes on when there is room again.
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <fstream>

#include "tests/storage/support.hpp"

namespace gleaner::test {
namespace {

using testing::HasSubstr;

// Commits until there is no space. Returns the newest version that was confirmed.
std::uint32_t fill(Database& database, std::size_t aggregate_bytes) {
  for (std::uint32_t version = database.run(kRun)->version.value + 1;; ++version) {
    const Status status = database.commit(kRun, record_of(version, aggregate_bytes));
    if (!status) {
      EXPECT_EQ(status.error().code(), ErrorCode::no_space) << status.error().message();
      return version - 1;
    }
  }
}

void expect_still_works(Database& database, std::uint32_t confirmed) {
  EXPECT_EQ(database.run(kRun)->version.value, confirmed);
  EXPECT_EQ(database.run(kRun)->rounds_done, confirmed);
  EXPECT_EQ(compare_with_functions(database, kRun, confirmed), "");
  const Status checked = database.check();
  EXPECT_TRUE(checked) << checked.error().message();
}

// A file system of a few megabytes, unmounted at the end.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& path) : path_(path) {
    std::filesystem::create_directory(path);
    mounted_ = ::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=6m") == 0;
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }

 private:
  std::string path_;
  bool mounted_ = false;
};

TEST(Space, a_full_file_system_changes_nothing_and_room_lets_it_go_on) {
  const Folder folder;
  const SmallDisk disk(folder / "disk");
  if (!disk.mounted()) GTEST_SKIP() << "a small file system cannot be mounted here: " << std::strerror(errno);
  const auto opened = Database::open(folder / "disk/a.db", Database::Access::serve);
  ASSERT_TRUE(opened) << opened.error().message();
  Database& database = **opened;
  ASSERT_TRUE(database.create_run(run_row()));
  std::ofstream(folder / "disk/ballast") << std::string(3'000'000, 'x');
  const std::uint32_t confirmed = fill(database, 400'000);
  EXPECT_GE(confirmed, 1U);
  for (int again = 0; again < 3; ++again) {
    EXPECT_EQ(database.commit(kRun, record_of(confirmed + 1, 400'000)).error().code(), ErrorCode::no_space);
    expect_still_works(database, confirmed);
  }
  std::filesystem::remove(folder / "disk/ballast");
  ASSERT_TRUE(database.commit(kRun, record_of(confirmed + 1, 400'000)));
  expect_still_works(database, confirmed + 1);
}

TEST(Space, a_full_file_system_is_survived_by_snapshot_backup_checkpoint_and_restart) {
  const Folder folder;
  const SmallDisk disk(folder / "disk");
  if (!disk.mounted()) GTEST_SKIP() << "a small file system cannot be mounted here: " << std::strerror(errno);
  auto database = *Database::open(folder / "disk/a.db", Database::Access::serve);
  ASSERT_TRUE(database->create_run(run_row()));
  const std::uint32_t confirmed = fill(*database, 400'000);
  const Status snapshot = write_snapshot(*database, kRun, confirmed, 5'000'000, 0);
  EXPECT_EQ(snapshot.error().code(), ErrorCode::no_space) << snapshot.error().message();
  const Status copied = database->backup(folder / "disk/copy.db");
  EXPECT_EQ(copied.error().code(), ErrorCode::no_space) << copied.error().message();
  EXPECT_FALSE(std::filesystem::exists(folder / "disk/copy.db"));
  EXPECT_FALSE(std::filesystem::exists(folder / "disk/copy.db.partial"));
  if (const Status folded = database->checkpoint(); !folded) {
    EXPECT_EQ(folded.error().code(), ErrorCode::no_space) << folded.error().message();
  }
  EXPECT_FALSE(*database->newest_snapshot(kRun));
  expect_still_works(*database, confirmed);
  ASSERT_TRUE(database->backup(folder / "copy.db")) << "another disk has room";
  database.reset();
  const auto reopened = Database::open(folder / "disk/a.db", Database::Access::inspect);
  ASSERT_TRUE(reopened) << reopened.error().message();
  expect_still_works(**reopened, confirmed);
}

// Only the newest of its pages count, and folded back they need no more room than the file has.
TEST(Space, a_log_that_fills_a_small_disk_is_folded_back_and_it_goes_on) {
  const Folder folder;
  const SmallDisk disk(folder / "disk");
  if (!disk.mounted()) GTEST_SKIP() << "a small file system cannot be mounted here: " << std::strerror(errno);
  auto database = *Database::open(folder / "disk/a.db", Database::Access::serve);
  ASSERT_TRUE(database->create_run(run_row()));
  for (int i = 0; i < 200; ++i) {
    const Status stored = database->set_divisor(kRun, i);
    ASSERT_TRUE(stored) << i << ": " << stored.error().message();
  }
  for (std::uint64_t i = 1; i < 200; ++i) {
    const Status issued = database->issue_plans(kRun, {plan_row(i)});
    ASSERT_TRUE(issued) << i << ": " << issued.error().message();
  }
  EXPECT_TRUE(database->check());
}

TEST(Space, a_file_of_bounded_size_changes_nothing_when_full) {
  const Folder folder;
  const auto database = *SqliteDatabase::open(folder / "a.db", Database::Access::serve, {.pages_max = 60});
  ASSERT_TRUE(database->create_run(run_row()));
  const std::uint32_t confirmed = fill(*database, 400'000);
  EXPECT_GE(confirmed, 1U);
  expect_still_works(*database, confirmed);
  const Status again = database->commit(kRun, record_of(confirmed + 1, 400'000));
  EXPECT_EQ(again.error().code(), ErrorCode::no_space);
  EXPECT_THAT(again.error().message(), HasSubstr(folder / "a.db"));
  // Two snapshots later the old aggregates have made room in the same file.
  ASSERT_TRUE(write_snapshot(*database, kRun, confirmed - 1, 1'000, 0));
  ASSERT_TRUE(write_snapshot(*database, kRun, confirmed, 1'000, 0));
  EXPECT_TRUE(database->commit(kRun, record_of(confirmed + 1, 400'000)));
  expect_still_works(*database, confirmed + 1);
}

TEST(Space, an_io_error_is_fatal_and_loses_nothing) {
  const Folder folder;
  auto database = *Database::open(folder / "a.db", Database::Access::serve);
  ASSERT_TRUE(database->create_run(run_row()));
  ASSERT_TRUE(database->commit(kRun, record_of(1, 100'000)));
  // Writes beyond this size fail with EFBIG, which is no lack of space.
  struct rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit tight = before;
  tight.rlim_cur = 2'000'000;
  ::setrlimit(RLIMIT_FSIZE, &tight);
  const Status status = database->commit(kRun, record_of(2, 3'000'000));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::fatal);
  EXPECT_THAT(status.error().message(), HasSubstr("a.db: the file may not grow further"));
  database.reset();
  database = *Database::open(folder / "a.db", Database::Access::serve);
  expect_still_works(*database, 1);
}

}  // namespace
}  // namespace gleaner::test
