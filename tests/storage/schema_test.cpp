#include "storage/schema.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>

#include "tests/storage/support.hpp"

namespace gleaner::test {
namespace {

using testing::HasSubstr;

std::unique_ptr<Connection> connect(const std::string& path) {
  return *Connection::open(path, Connection::Mode::write, {});
}

class Schema : public testing::Test {
 protected:
  Folder folder_;
  const std::string path_ = folder_ / "a.db";
};

TEST_F(Schema, of_version_0_is_migrated_after_a_backup) {
  const std::string mark = fmt::format(
      "PRAGMA application_id = {}; CREATE TABLE early (note TEXT) STRICT; "
      "INSERT INTO early VALUES ('kept');",
      kApplicationId);
  ASSERT_TRUE(connect(path_)->script(mark));
  {
    const auto early = Database::open(path_, Database::Access::inspect);
    EXPECT_THAT(early.error().message(),
                HasSubstr(fmt::format("version 0, this program reads {}", migration_steps().size())));
    const auto database = Database::open(path_, Database::Access::serve);
    ASSERT_TRUE(database) << database.error().message();
    EXPECT_TRUE((*database)->create_run(run_row()));
    EXPECT_TRUE((*database)->check());
  }
  const auto after = connect(path_);
  EXPECT_EQ(*after->first<std::uint32_t>("PRAGMA user_version"), migration_steps().size());
  EXPECT_EQ(*after->first<std::string>("SELECT note FROM early"), "kept");
  const auto before = *Connection::open(path_ + ".schema-0.backup", Connection::Mode::read, {});
  EXPECT_EQ(*before->first<std::uint32_t>("PRAGMA user_version"), 0U);
  EXPECT_EQ(*before->first<std::uint32_t>("PRAGMA application_id"), kCopyApplicationId);
  EXPECT_EQ(*before->first<std::string>("SELECT note FROM early"), "kept");
  EXPECT_EQ(*before->first<std::uint32_t>("SELECT count(*) FROM sqlite_schema"), 1U);
}

TEST_F(Schema, of_version_1_is_migrated_with_what_is_in_it) {
  {
    const auto old = connect(path_);
    ASSERT_TRUE(migrate(*old, *read_schema(*old, migration_steps().first(1)), migration_steps().first(1)));
    ASSERT_TRUE(
        old->script("INSERT INTO run VALUES (5, 1, 'old', '', 1, 7, 0, 0, 3, 0, 0, 0);"
                    "INSERT INTO plan VALUES (5, 2, 'b', 1, 0, 1, 1, 0, 0, 0, 1);"
                    "INSERT INTO answer VALUES (5, 1, 'a', 4, 0, 0, 0, 0, 0, 0, 0, 0);"));
  }
  const auto database = Database::open(path_, Database::Access::serve);
  ASSERT_TRUE(database) << database.error().message();
  ASSERT_EQ((*database)->open_plans({5})->size(), 1U);
  EXPECT_EQ((*database)->open_plans({5})->front().id, PlanId{2});
  EXPECT_TRUE(*(*database)->outcome_of({5}, {1}));
  EXPECT_TRUE((*database)->check());
  const auto before = *Connection::open(path_ + ".schema-1.backup", Connection::Mode::read, {});
  EXPECT_EQ(*before->first<std::uint32_t>("PRAGMA user_version"), 1U);
  EXPECT_EQ(*before->first<std::string>("SELECT name FROM run"), "old");
}

TEST_F(Schema, newer_than_the_program_is_refused_with_both_numbers) {
  Database::open(path_, Database::Access::serve)->reset();
  ASSERT_TRUE(connect(path_)->script("PRAGMA user_version = 77;"));
  for (const auto access : {Database::Access::serve, Database::Access::inspect}) {
    const auto database = Database::open(path_, access);
    ASSERT_FALSE(database);
    EXPECT_EQ(database.error().code(), ErrorCode::bad_input);
    EXPECT_THAT(database.error().message(),
                HasSubstr(fmt::format("version 77, this program knows up to {}", migration_steps().size())));
  }
}

TEST_F(Schema, of_another_program_is_refused_untouched) {
  ASSERT_TRUE(connect(path_)->script("CREATE TABLE theirs (a INTEGER); PRAGMA user_version = 1;"));
  const auto database = Database::open(path_, Database::Access::serve);
  ASSERT_FALSE(database);
  EXPECT_EQ(database.error().code(), ErrorCode::bad_input);
  EXPECT_THAT(database.error().message(), HasSubstr("another program"));
  EXPECT_EQ(*connect(path_)->first<std::uint32_t>("SELECT count(*) FROM sqlite_schema"), 1U);
}

constexpr MigrationStep kMakeTable{"a table", "CREATE TABLE t (a INTEGER) STRICT; INSERT INTO t VALUES (1), (2);"};
constexpr MigrationStep kRename{"a better name",
                                "ALTER TABLE t RENAME COLUMN a TO amount; UPDATE t SET amount = amount * 10;"};
constexpr MigrationStep kFails{"a mistake", "CREATE TABLE half_done (a INTEGER); INSERT INTO nowhere VALUES (1);"};

TEST_F(Schema, steps_run_once_each_and_in_order) {
  const std::array first = {kMakeTable};
  const std::array both = {kMakeTable, kRename};
  const auto connection = connect(path_);
  ASSERT_TRUE(migrate(*connection, *read_schema(*connection, first), first));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".schema-0.backup")) << "nothing was there to be saved";
  ASSERT_TRUE(migrate(*connection, *read_schema(*connection, both), both));
  ASSERT_TRUE(migrate(*connection, *read_schema(*connection, both), both));
  EXPECT_EQ(*connection->first<std::int64_t>("SELECT sum(amount) FROM t"), 30);
  EXPECT_EQ(read_schema(*connection, both)->version, 2U);
  EXPECT_TRUE(std::filesystem::exists(path_ + ".schema-1.backup"));
}

TEST_F(Schema, a_failing_step_leaves_everything_as_it_was) {
  const std::array first = {kMakeTable};
  const std::array broken = {kMakeTable, kRename, kFails};
  const auto connection = connect(path_);
  ASSERT_TRUE(migrate(*connection, *read_schema(*connection, first), first));
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Status status = migrate(*connection, *read_schema(*connection, broken), broken);
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message(), HasSubstr("schema 3 (a mistake)"));
  }
  EXPECT_EQ(read_schema(*connection, broken)->version, 1U);
  EXPECT_EQ(*connection->first<std::int64_t>("SELECT sum(a) FROM t"), 3);
  EXPECT_EQ(*connection->first<std::int64_t>("SELECT count(*) FROM sqlite_schema"), 1);
}

TEST_F(Schema, settings_that_durability_rests_on_are_in_force) {
  Database::open(path_, Database::Access::serve)->reset();
  const auto connection = connect(path_);
  EXPECT_EQ(*connection->first<std::int64_t>("PRAGMA page_size"), 65'536);
  EXPECT_EQ(*connection->first<std::string>("PRAGMA journal_mode"), "wal");
  EXPECT_EQ(*connection->first<std::int64_t>("PRAGMA synchronous"), 2);
  EXPECT_EQ(*connection->first<std::int64_t>("PRAGMA wal_autocheckpoint"), 0);
  EXPECT_EQ(*connection->first<std::int64_t>("PRAGMA foreign_keys"), 1);
  EXPECT_EQ(*connection->first<std::int64_t>("PRAGMA secure_delete"), 0);
  EXPECT_EQ(*connection->first<std::int64_t>("SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND "
                                             "name NOT LIKE 'sqlite_%' AND strict = 0"),
            0);
}

// A pragma is asked in words that differ each time: its answer is that of the moment it was prepared.
TEST_F(Schema, only_a_deferred_write_goes_without_waiting_for_the_disk) {
  const auto connection = connect(path_);
  ASSERT_TRUE(connection->script("CREATE TABLE t (a INTEGER) STRICT;"));
  {
    auto transaction = *Transaction::begin(*connection, Transaction::Kind::deferred_write);
    EXPECT_EQ(*connection->first<std::int64_t>("PRAGMA synchronous"), 1);
    ASSERT_TRUE(connection->execute("INSERT INTO t VALUES (1)"));
    ASSERT_TRUE(transaction.commit());
  }
  EXPECT_EQ(*connection->first<std::int64_t>(" PRAGMA synchronous"), 2);
  {
    auto rolled_back = *Transaction::begin(*connection, Transaction::Kind::deferred_write);
    ASSERT_TRUE(connection->execute("INSERT INTO t VALUES (2)"));
  }
  EXPECT_EQ(*connection->first<std::int64_t>("  PRAGMA synchronous"), 2);
  EXPECT_EQ(*connection->first<std::int64_t>("SELECT sum(a) FROM t"), 1);
}

}  // namespace
}  // namespace gleaner::test
