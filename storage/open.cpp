#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "common/check.hpp"
#include "common/log.hpp"
#include "common/text.hpp"
#include "storage/schema.hpp"
#include "storage/sqlite_database.hpp"

namespace gleaner {
namespace {

// Plan ids that a restored database cannot know of are jumped over: 2^32 in one lineage are out of reach.
constexpr std::uint64_t kPlanIdsALineage = std::uint64_t{1} << 32;

std::uint64_t random_bits() {
  std::uint64_t bits = 0;
  while (bits == 0) GLEANER_CHECK(::getrandom(&bits, sizeof(bits), 0) == sizeof(bits));
  return bits;
}

// One file has one name, so that two names of it meet at one lock.
Result<std::string> canonical(const std::string& path) {
  std::error_code error;
  const std::filesystem::path full = std::filesystem::weakly_canonical(std::filesystem::absolute(path), error);
  if (error || path.empty()) {
    return fail(ErrorCode::bad_input, fmt::format("\"{}\": is no path for a database: {}", path, error.message()));
  }
  return full.string();
}

// SQLite replays whatever lies at PATH-wal. A fresh copy has no such log of its own (it says so in its header until it
// is served), so one beside it belongs to the file that the copy replaced and would destroy the copy.
Status set_aside_foreign_wal(const std::string& path) {
  constexpr std::size_t kWriteVersionAt = 18;
  constexpr std::size_t kApplicationIdAt = 68;
  constexpr char kRollbackJournal = 1;
  std::array<char, 100> header{};
  std::ifstream file(path, std::ios::binary);
  if (!std::filesystem::exists(path + "-wal") || !file.read(header.data(), header.size())) return {};
  const std::string_view application(header.data() + kApplicationIdAt, 4);
  if (application != "GLNC" || header[kWriteVersionAt] != kRollbackJournal) return {};
  log_warn("{}-wal belongs to the file that this copy replaced; it is kept as {}-wal.replaced", path, path);
  std::error_code error;
  std::filesystem::rename(path + "-wal", path + "-wal.replaced", error);
  if (error) return fail(system_failure(error.value(), path + "-wal", "cannot be renamed"));
  std::filesystem::remove(path + "-shm", error);
  return sync_folder_of(path);
}

}  // namespace

Result<std::unique_ptr<Database>> Database::open(const std::string& path, Access access, Durability durability) {
  return SqliteDatabase::open(path, access, {.outlives_power = durability == Durability::machine});
}

Result<std::unique_ptr<SqliteDatabase>> SqliteDatabase::open(const std::string& path, Access access,
                                                             const Connection::Limits& limits) {
  GLEANER_ASSIGN(const std::string full, canonical(path));
  if (access == Access::inspect) {
    if (!std::filesystem::exists(full)) return fail(ErrorCode::not_found, fmt::format("{}: no such file", full));
    GLEANER_ASSIGN(auto connection, Connection::open(full, Connection::Mode::read, limits));
    GLEANER_ASSIGN(const SchemaState state, read_schema(*connection, migration_steps()));
    if (state.is_new || state.version != migration_steps().size()) {
      return fail(ErrorCode::bad_input,
                  fmt::format("{}: its schema is version {}, this program reads {}; serve it once "
                              "to migrate it",
                              full, state.version, migration_steps().size()));
    }
    return std::unique_ptr<SqliteDatabase>(new SqliteDatabase(std::nullopt, std::move(connection)));
  }
  GLEANER_ASSIGN(LockFile lock, LockFile::acquire(full));
  GLEANER_TRY(set_aside_foreign_wal(full));
  GLEANER_ASSIGN(auto connection, Connection::open(full, Connection::Mode::write, limits));
  GLEANER_ASSIGN(const SchemaState state, read_schema(*connection, migration_steps()));
  GLEANER_TRY(migrate(*connection, state, migration_steps()));
  std::unique_ptr<SqliteDatabase> database(new SqliteDatabase(std::move(lock), std::move(connection)));
  GLEANER_TRY(database->renew_identity(state.is_copy));
  GLEANER_TRY(database->drop_unfinished_snapshots());
  return database;
}

// The database and its lock file share a token that changes whenever it is served. An older copy of the file, put in
// its place by hand, has an older token: devices may be ahead of it. The lock file knows the old and the new token
// while the database changes from one to the other, so a crash is no mismatch.
Status SqliteDatabase::renew_identity(bool is_copy) {
  lock_->keep();
  GLEANER_ASSIGN(const auto old_token, connection_->first<std::uint64_t>("SELECT value FROM meta WHERE key = 'token'"));
  const bool is_swapped = old_token && std::ranges::count(lock_->tokens(), *old_token) == 0;
  if (!old_token && !lock_->tokens().empty()) {
    log_warn("{}: was served before but is not there any more: an empty one is made, without the runs of then",
             connection_->path());
  }
  const std::uint64_t new_token = random_bits();
  std::vector<std::uint64_t> accepted = {new_token};
  if (old_token && !is_swapped) accepted.push_back(*old_token);
  GLEANER_TRY(lock_->set_tokens(std::move(accepted)));
  if (is_copy || is_swapped) {
    log_warn("{}: {}; every run starts a new lineage and devices fetch whole models", connection_->path(),
             is_copy ? "was restored from a backup" : "is not the file that was served last under this name");
  }
  GLEANER_ASSIGN(Transaction transaction, Transaction::begin(*connection_));
  if (is_copy || is_swapped) GLEANER_TRY(start_new_lineages());
  GLEANER_TRY(connection_->execute(
      "INSERT INTO meta (key, value) VALUES ('token', ?1) ON CONFLICT (key) DO UPDATE SET value = ?1", new_token));
  GLEANER_TRY(transaction.commit());
  return lock_->set_tokens({new_token});
}

Status SqliteDatabase::start_new_lineages() {
  GLEANER_ASSIGN(const std::vector<RunRow> all, runs());
  for (const RunRow& row : all) {
    // Open plans belong to the old lineage: whoever answers one puts its update back.
    GLEANER_TRY(connection_->execute(
        "INSERT INTO answer (run, plan, device, outcome, refusal, digest, samples, compute_ms, payload_bytes, "
        "left_side,"
        " right_side, loss) SELECT run, id, device, ?, ?, 0, samples, 0, 0, 0, 0, 0 FROM plan WHERE run = ? "
        "ON CONFLICT DO NOTHING",
        Outcome::abandoned, RefusalCode::none, row.id));
    GLEANER_TRY(connection_->execute("DELETE FROM plan WHERE run = ?", row.id));
    const Lineage lineage{random_bits()};
    GLEANER_TRY(connection_->execute("UPDATE run SET lineage = ?, divisor = 0, next_plan = ? WHERE id = ?", lineage,
                                     row.next_plan.value + kPlanIdsALineage, row.id));
    log_warn("run {}: lineage {} ended at version {}; lineage {} goes on from there", row.name,
             to_hex(row.lineage.value), row.version.value, to_hex(lineage.value));
  }
  return connection_->script(fmt::format("PRAGMA application_id = {};", kApplicationId));
}

Status SqliteDatabase::backup(const std::string& path) {
  GLEANER_ASSIGN(const std::string full, canonical(path));
  if (std::filesystem::exists(std::filesystem::symlink_status(full))) {
    return fail(ErrorCode::conflict, fmt::format("{}: exists already; name a new file", full));
  }
  const std::string partial = full + ".partial";
  std::error_code error;
  std::filesystem::remove(partial, error);
  if (Status copied = connection_->copy_to(partial, kCopyApplicationId); !copied) {
    std::filesystem::remove(partial, error);
    return fail(copied.error().within("while copying the database"));
  }
  // A link, unlike a rename, never replaces a file that came to be meanwhile.
  std::filesystem::create_hard_link(partial, full, error);
  std::error_code ignored;
  std::filesystem::remove(partial, ignored);
  if (error == std::errc::file_exists) return fail(ErrorCode::conflict, full + ": exists already; name a new file");
  if (error) return fail(system_failure(error.value(), full, "cannot be made"));
  return sync_folder_of(full);
}

Status SqliteDatabase::checkpoint() { return connection_->checkpoint(); }

}  // namespace gleaner
