#include <gmock/gmock.h>

#include "tests/storage/support.hpp"

namespace gleaner::test {
namespace {

using testing::HasSubstr;

class Snapshots : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(database_->create_run(run_row())); }
  Folder folder_;
  std::unique_ptr<Database> database_ = *Database::open(folder_ / "a.db", Database::Access::serve);

  void commit_up_to(std::uint32_t last) {
    for (std::uint32_t version = database_->run(kRun)->version.value + 1; version <= last; ++version) {
      ASSERT_TRUE(database_->commit(kRun, record_of(version)));
    }
  }
  std::int64_t count_rows(const std::string& table_and_condition) {
    const std::string sql = "SELECT count(*) FROM " + table_and_condition;
    const auto connection = *Connection::open(folder_ / "a.db", Connection::Mode::read, {});
    return **connection->first<std::int64_t>(sql);
  }
};

TEST_F(Snapshots, grow_between_commits_and_show_when_finished) {
  commit_up_to(3);
  const Bytes bytes = snapshot_of(3, 100'000);
  ASSERT_TRUE(database_->begin_snapshot(kRun, {3}, bytes.size()));
  ASSERT_TRUE(database_->append_snapshot(kRun, {3}, ByteView(bytes).first(60'000)));
  commit_up_to(4);
  EXPECT_FALSE(*database_->newest_snapshot(kRun));
  EXPECT_EQ(database_->finish_snapshot(kRun, {3}, 0).error().code(), ErrorCode::bad_input) << "bytes are missing";
  ASSERT_TRUE(database_->append_snapshot(kRun, {3}, ByteView(bytes).subspan(60'000)));
  ASSERT_TRUE(database_->check());
  EXPECT_FALSE(*database_->newest_snapshot(kRun));
  ASSERT_TRUE(database_->finish_snapshot(kRun, {3}, 0));
  ASSERT_TRUE(database_->finish_snapshot(kRun, {3}, 0)) << "a retry";
  const auto newest = database_->newest_snapshot(kRun);
  ASSERT_TRUE(newest && *newest);
  EXPECT_EQ((*newest)->version, Version{3});
  EXPECT_EQ((*newest)->bytes, bytes);
  EXPECT_TRUE(database_->check());
}

TEST_F(Snapshots, of_which_the_end_was_never_written_are_gone_at_the_next_start) {
  commit_up_to(2);
  ASSERT_TRUE(write_snapshot(*database_, kRun, 1, 5'000, 0));
  ASSERT_TRUE(database_->begin_snapshot(kRun, {2}, 100));
  ASSERT_TRUE(database_->append_snapshot(kRun, {2}, snapshot_of(2, 60)));
  EXPECT_EQ(count_rows("chunk WHERE kind = 3 AND version = 2"), 1);
  database_.reset();
  database_ = *Database::open(folder_ / "a.db", Database::Access::serve);
  EXPECT_EQ(count_rows("chunk WHERE kind = 3 AND version = 2"), 0);
  EXPECT_EQ(count_rows("snapshot"), 1);
  EXPECT_EQ((*database_->newest_snapshot(kRun))->version, Version{1});
  EXPECT_EQ(database_->append_snapshot(kRun, {2}, snapshot_of(2, 40)).error().code(), ErrorCode::not_found);
  EXPECT_TRUE(database_->check());
}

TEST_F(Snapshots, begun_again_start_from_nothing) {
  commit_up_to(2);
  ASSERT_TRUE(database_->begin_snapshot(kRun, {1}, 100));
  ASSERT_TRUE(database_->append_snapshot(kRun, {1}, content(1, 60)));
  ASSERT_TRUE(database_->begin_snapshot(kRun, {2}, 80));
  EXPECT_EQ(database_->append_snapshot(kRun, {1}, content(1, 40)).error().code(), ErrorCode::not_found);
  ASSERT_TRUE(database_->append_snapshot(kRun, {2}, snapshot_of(2, 80)));
  ASSERT_TRUE(database_->finish_snapshot(kRun, {2}, 0));
  EXPECT_EQ(database_->begin_snapshot(kRun, {2}, 80).error().code(), ErrorCode::conflict);
  EXPECT_EQ(database_->begin_snapshot(kRun, {3}, 80).error().code(), ErrorCode::conflict) << "not committed yet";
  EXPECT_EQ(count_rows("chunk WHERE kind = 3"), 1);
  EXPECT_TRUE(database_->check());
}

TEST_F(Snapshots, refuse_pieces_that_do_not_fit) {
  commit_up_to(1);
  ASSERT_TRUE(database_->begin_snapshot(kRun, {1}, kChunkBytesMax + 10));
  for (const std::size_t size : {std::size_t{0}, kChunkBytesMax + 1}) {
    const Status status = database_->append_snapshot(kRun, {1}, content(1, size));
    EXPECT_EQ(status.error().code(), ErrorCode::bad_input);
  }
  ASSERT_TRUE(database_->append_snapshot(kRun, {1}, content(1, kChunkBytesMax)));
  const Status status = database_->append_snapshot(kRun, {1}, content(1, 11));
  EXPECT_THAT(status.error().message(), HasSubstr("a piece of 11 bytes after 4194304 of 4194314"));
}

TEST_F(Snapshots, keep_two_and_the_records_after_the_older_one) {
  commit_up_to(10);
  ASSERT_TRUE(write_snapshot(*database_, kRun, 2, 3'000, 3));
  EXPECT_EQ(count_rows("chunk WHERE kind = 1"), 10) << "the seeded model counts as the older snapshot";
  ASSERT_TRUE(write_snapshot(*database_, kRun, 5, 3'000, 3));
  EXPECT_EQ(count_rows("chunk WHERE kind = 1"), 8);
  ASSERT_TRUE(write_snapshot(*database_, kRun, 9, 3'000, 3));
  EXPECT_EQ(count_rows("chunk WHERE kind = 1"), 5);
  EXPECT_EQ(count_rows("chunk WHERE kind = 2"), 5) << "a replay from snapshot 5 needs more than the three to keep";
  EXPECT_EQ(count_rows("snapshot"), 2);
  EXPECT_EQ(compare_with_functions(*database_, kRun, 10), "");
  EXPECT_TRUE(database_->replay(kRun, {5}, [](const CommitRecord&) -> Status { return {}; }));
  const Status pruned = database_->replay(kRun, {4}, [](const CommitRecord&) -> Status { return {}; });
  EXPECT_EQ(pruned.error().code(), ErrorCode::not_found);
  EXPECT_THAT(pruned.error().message(), HasSubstr("version 5 was pruned"));
  EXPECT_TRUE(database_->check());
}

TEST_F(Snapshots, let_patches_stay_longer_than_aggregates) {
  commit_up_to(10);
  for (const std::uint32_t version : {8U, 10U}) ASSERT_TRUE(write_snapshot(*database_, kRun, version, 100, 6));
  EXPECT_EQ(count_rows("chunk WHERE kind = 1"), 2);
  EXPECT_EQ(count_rows("chunk WHERE kind = 2"), 6);
  EXPECT_EQ(database_->patches(kRun, {0}, {10})->front().version, Version{5});
  EXPECT_TRUE(database_->check());
}

TEST_F(Snapshots, use_the_pages_of_pruned_ones_again) {
  const auto file_bytes = [&] {
    EXPECT_TRUE(database_->checkpoint());
    return std::filesystem::file_size(folder_ / "a.db");
  };
  std::uintmax_t settled = 0;
  for (std::uint32_t version = 1; version <= 12; ++version) {
    ASSERT_TRUE(database_->commit(kRun, record_of(version, 300'000)));
    ASSERT_TRUE(write_snapshot(*database_, kRun, version, 1'000'000, 2));
    if (version == 5) settled = file_bytes();
  }
  EXPECT_LE(file_bytes(), settled + 4 * 65'536);
}

}  // namespace
}  // namespace gleaner::test
