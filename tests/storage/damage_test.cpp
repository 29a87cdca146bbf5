#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>

#include "common/random.hpp"
#include "tests/storage/support.hpp"

namespace gleaner::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr std::size_t kAggregateBytes = 300'000;

class Damage : public testing::Test {
 protected:
  Folder folder_;
  const std::string path_ = folder_ / "a.db";

  void SetUp() override {
    const auto database = *Database::open(path_, Database::Access::serve);
    ASSERT_TRUE(database->create_run(run_row()));
    for (std::uint32_t version = 1; version <= 6; ++version) {
      ASSERT_TRUE(database->commit(kRun, record_of(version, kAggregateBytes)));
      if (version == 2 || version == 4) ASSERT_TRUE(write_snapshot(*database, kRun, version, 5'000'000, 10));
    }
    ASSERT_TRUE(database->check());
  }

  // Inverts the byte of the file that holds bytes[at]. False when the text around it lies on two pages.
  bool flip(const Bytes& bytes, std::size_t at) const {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(file), {}};
    const std::string_view needle = as_text(ByteView(bytes).subspan(at, std::min<std::size_t>(24, bytes.size() - at)));
    const std::size_t found = all.find(needle);
    if (found == std::string::npos) return false;
    file.clear();
    file.seekp(static_cast<std::streamoff>(found));
    file.put(static_cast<char>(~all[found]));
    return true;
  }
  void flip_somewhere(const Bytes& bytes, std::uint64_t seed) const {
    Random random(seed, Purpose::test);
    while (!flip(bytes, random.below(static_cast<std::uint32_t>(bytes.size())))) {
    }
  }
  void run_sql(const std::string& sql) const {
    const Status status = (*Connection::open(path_, Connection::Mode::write, {}))->script(sql);
    ASSERT_TRUE(status) << status.error().message();
  }
  std::unique_ptr<Database> serve() const { return *Database::open(path_, Database::Access::serve); }

  void expect_check_finds(const std::string& place) const {
    const auto database = *Database::open(path_, Database::Access::inspect);
    const Status status = database->check();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), ErrorCode::corrupt);
    EXPECT_THAT(status.error().message(), HasSubstr(path_));
    EXPECT_THAT(status.error().message(), HasSubstr(place));
  }
};

Status ignore(const CommitRecord&) { return {}; }

TEST_F(Damage, of_one_byte_of_an_aggregate_is_found_with_its_place) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const std::uint32_t version = 3 + static_cast<std::uint32_t>(seed % 4);
    const Bytes aggregate = record_of(version, kAggregateBytes).aggregate;
    flip_somewhere(aggregate, seed);
    const std::string place = fmt::format("version {} of run demo, aggregate: chunk 0 fails its checksum", version);
    expect_check_finds(place);
    const Status replayed = serve()->replay(kRun, {2}, ignore);
    EXPECT_EQ(replayed.error().code(), ErrorCode::corrupt);
    EXPECT_THAT(replayed.error().message(), HasSubstr(place));
    TearDown();
    std::filesystem::remove(path_);
    SetUp();
  }
}

TEST_F(Damage, of_one_byte_of_a_patch_is_found_with_its_place) {
  flip_somewhere(record_of(5, kAggregateBytes).patch, 1);
  expect_check_finds("version 5 of run demo, patch: chunk 0");
  EXPECT_EQ(serve()->patches(kRun, {4}, {6}).error().code(), ErrorCode::corrupt);
  EXPECT_TRUE(serve()->patches(kRun, {5}, {6}));
}

TEST_F(Damage, of_the_newest_snapshot_leaves_the_older_one) {
  flip_somewhere(snapshot_of(4, 5'000'000), 2);
  expect_check_finds("version 4 of run demo, snapshot: chunk");
  const auto database = serve();
  const auto newest = database->newest_snapshot(kRun);
  ASSERT_TRUE(newest && *newest);
  EXPECT_EQ((*newest)->version, Version{2});
  EXPECT_EQ(compare_with_functions(*database, kRun, 6), "");
}

TEST_F(Damage, of_both_snapshots_is_an_error) {
  flip_somewhere(snapshot_of(2, 5'000'000), 3);
  flip_somewhere(snapshot_of(4, 5'000'000), 4);
  const auto newest = serve()->newest_snapshot(kRun);
  ASSERT_FALSE(newest);
  EXPECT_EQ(newest.error().code(), ErrorCode::corrupt);
  EXPECT_THAT(newest.error().message(), HasSubstr("version 4 of run demo, snapshot"));
}

TEST_F(Damage, a_gap_in_the_log_names_the_missing_version) {
  run_sql("DELETE FROM round WHERE version = 5");
  const Status replayed = serve()->replay(kRun, {4}, ignore);
  EXPECT_EQ(replayed.error().code(), ErrorCode::corrupt);
  EXPECT_THAT(replayed.error().message(), HasSubstr("version 5 is missing"));
  run_sql("UPDATE run SET rounds_done = 5");
  expect_check_finds("version 5 is missing");
}

TEST_F(Damage, a_lost_end_of_the_log_is_found) {
  run_sql("DELETE FROM round WHERE version = 6; UPDATE run SET rounds_done = 5");
  expect_check_finds("the log ends at version 5, the run is at version 6");
  EXPECT_THAT(serve()->replay(kRun, {4}, ignore).error().message(), HasSubstr("version 6 is missing"));
}

TEST_F(Damage, a_snapshot_beyond_the_log_is_found) {
  EXPECT_EQ(serve()->replay(kRun, {7}, ignore).error().code(), ErrorCode::corrupt);
}

TEST_F(Damage, missing_and_ownerless_chunks_are_found) {
  run_sql("UPDATE chunk SET version = 9 WHERE kind = 1 AND version = 6");
  expect_check_finds("version 6 of run demo, aggregate: 0 of 300000 bytes are there");
  run_sql("UPDATE chunk SET version = 6 WHERE version = 9; UPDATE chunk SET place = 5 WHERE kind = 1 AND version = 6");
  expect_check_finds("version 6 of run demo, aggregate: chunk 0 is missing");
  run_sql(
      "UPDATE chunk SET place = 0 WHERE place = 5; "
      "INSERT INTO chunk SELECT run, 9, kind, place, hash, bytes FROM chunk WHERE kind = 2 AND version = 6");
  expect_check_finds("a chunk without an owner");
}

TEST_F(Damage, an_unfinished_plan_list_and_rounds_are_checked) {
  run_sql("UPDATE run SET rounds_done = 9");
  expect_check_finds("6 rounds are stored, 9 were done");
}

TEST_F(Damage, an_answer_that_is_not_its_plans_is_found) {
  run_sql("INSERT INTO answer SELECT id, 3, 'a', 1, 0, 0, 0, 0, 0, 0, 0, 0 FROM run");
  expect_check_finds("plan 3 was never issued");
  run_sql("UPDATE run SET next_plan = 4; INSERT INTO plan SELECT id, 3, 'b', 1, 0, 1, 1, 0, 0, 0, 1 FROM run");
  expect_check_finds("or is answered by another device");
  run_sql("UPDATE plan SET device = 'a'");
  EXPECT_TRUE(serve()->check());
}

TEST_F(Damage, another_model_hash_at_the_end_of_the_log_is_found) {
  run_sql("UPDATE run SET model_hash = 5");
  expect_check_finds("another model hash");
  EXPECT_EQ(serve()->replay(kRun, {4}, ignore).error().code(), ErrorCode::corrupt);
}

TEST_F(Damage, of_a_truncated_file_is_found_wherever_it_ends) {
  const auto whole = std::filesystem::file_size(path_);
  std::filesystem::copy_file(path_, folder_ / "whole.db");
  for (const std::uintmax_t size :
       {whole - 1, whole - 65'536, whole / 2, std::uintmax_t{65'536}, std::uintmax_t{700}, std::uintmax_t{99}}) {
    std::filesystem::resize_file(path_, size);
    for (const auto access : {Database::Access::inspect, Database::Access::serve}) {
      const auto database = Database::open(path_, access);
      const Status status = database ? (*database)->check() : Status(fail(database.error()));
      ASSERT_FALSE(status) << size << " of " << whole << " bytes";
      EXPECT_EQ(status.error().code(), ErrorCode::corrupt) << size << ": " << status.error().message();
      EXPECT_THAT(status.error().message(), HasSubstr(path_));
    }
    std::filesystem::copy_file(folder_ / "whole.db", path_, std::filesystem::copy_options::overwrite_existing);
  }
}

TEST_F(Damage, a_file_that_is_no_database_is_refused) {
  std::ofstream(path_) << std::string(5'000, 'x');
  const auto database = Database::open(path_, Database::Access::serve);
  ASSERT_FALSE(database);
  EXPECT_EQ(database.error().code(), ErrorCode::corrupt);
  EXPECT_THAT(database.error().message(), HasSubstr(path_ + ": is not a database"));
}

}  // namespace
}  // namespace gleaner::test
