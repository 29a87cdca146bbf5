#include <fmt/format.h>

#include "common/log.hpp"
#include "storage/sqlite_database.hpp"

namespace gleaner {
namespace {

struct SnapshotRow {
  std::uint64_t total_bytes = 0;
  std::uint64_t received_bytes = 0;
  std::uint32_t pieces = 0;
  bool complete = false;
};

Result<std::optional<SnapshotRow>> find_snapshot(Connection& connection, RunId run, Version version) {
  GLEANER_ASSIGN(Statement row, connection.query("SELECT total_bytes, received_bytes, pieces, complete FROM snapshot "
                                                 "WHERE run = ? AND version = ?",
                                                 run, version));
  GLEANER_ASSIGN(const bool found, row.step());
  if (!found) return std::nullopt;
  return SnapshotRow{row.get<std::uint64_t>(0), row.get<std::uint64_t>(1), row.get<std::uint32_t>(2),
                     row.get<std::uint32_t>(3) != 0};
}

Result<std::vector<Version>> versions(Statement rows) {
  std::vector<Version> found;
  for (;;) {
    GLEANER_ASSIGN(const bool row, rows.step());
    if (!row) return found;
    found.push_back(rows.get<Version>(0));
  }
}

// Newest first.
Result<std::vector<Version>> complete_snapshots(Connection& connection, RunId run) {
  GLEANER_ASSIGN(Statement rows, connection.query("SELECT version FROM snapshot WHERE run = ? AND complete = 1 "
                                                  "ORDER BY version DESC",
                                                  run));
  return versions(std::move(rows));
}

Status delete_snapshot(Connection& connection, RunId run, Version version) {
  GLEANER_TRY(delete_chunks(connection, {run, version, ChunkKind::snapshot}));
  return connection.execute("DELETE FROM snapshot WHERE run = ? AND version = ?", run, version);
}

Status delete_unfinished(Connection& connection, RunId run) {
  GLEANER_ASSIGN(Statement rows, connection.query("SELECT version FROM snapshot WHERE run = ? AND complete = 0", run));
  GLEANER_ASSIGN(const std::vector<Version> unfinished, versions(std::move(rows)));
  for (const Version version : unfinished) GLEANER_TRY(delete_snapshot(connection, run, version));
  return {};
}

std::unexpected<Error> not_begun(Version version) {
  return fail(ErrorCode::not_found, fmt::format("no snapshot of version {} is being written", version.value));
}

}  // namespace

Status SqliteDatabase::begin_snapshot(RunId run, Version version, std::uint64_t total_bytes) {
  GLEANER_ASSIGN(const RunRow row, this->run(run));
  GLEANER_ASSIGN(const auto existing, find_snapshot(*connection_, run, version));
  if (version > row.version || (existing && existing->complete)) {
    return fail(ErrorCode::conflict,
                fmt::format("run {}: a snapshot of version {} {}", row.name, version.value,
                            version > row.version ? "cannot be made before its commit" : "is stored already"));
  }
  GLEANER_ASSIGN(Transaction transaction, Transaction::begin(*connection_));
  GLEANER_TRY(delete_unfinished(*connection_, run));
  GLEANER_TRY(
      connection_->execute("INSERT INTO snapshot (run, version, total_bytes, received_bytes, pieces, complete) "
                           "VALUES (?, ?, ?, 0, 0, 0)",
                           run, version, total_bytes));
  return transaction.commit();
}

Status SqliteDatabase::append_snapshot(RunId run, Version version, ByteView piece) {
  GLEANER_ASSIGN(const auto row, find_snapshot(*connection_, run, version));
  if (!row || row->complete) return not_begun(version);
  if (piece.empty() || piece.size() > kChunkBytesMax || piece.size() > row->total_bytes - row->received_bytes) {
    return fail(ErrorCode::bad_input,
                fmt::format("snapshot of version {}: a piece of {} bytes after {} of {}; pieces have 1 to {} bytes",
                            version.value, piece.size(), row->received_bytes, row->total_bytes, kChunkBytesMax));
  }
  // Pieces need not be on disk before the end of the snapshot or the next commit is, whichever comes first.
  GLEANER_ASSIGN(Transaction transaction, Transaction::begin(*connection_, Transaction::Kind::deferred_write));
  GLEANER_TRY(write_chunk(*connection_, {run, version, ChunkKind::snapshot}, row->pieces, piece));
  GLEANER_TRY(
      connection_->execute("UPDATE snapshot SET received_bytes = received_bytes + ?, pieces = pieces + 1 "
                           "WHERE run = ? AND version = ?",
                           piece.size(), run, version));
  return transaction.commit();
}

Status SqliteDatabase::finish_snapshot(RunId run, Version version, std::uint32_t patches_kept) {
  GLEANER_ASSIGN(const auto row, find_snapshot(*connection_, run, version));
  if (!row) return not_begun(version);
  if (row->received_bytes != row->total_bytes) {
    return fail(ErrorCode::bad_input, fmt::format("snapshot of version {}: {} of {} bytes were written", version.value,
                                                  row->received_bytes, row->total_bytes));
  }
  GLEANER_ASSIGN(Transaction transaction, Transaction::begin(*connection_));
  GLEANER_TRY(connection_->execute("UPDATE snapshot SET complete = 1 WHERE run = ? AND version = ?", run, version));
  GLEANER_TRY(prune(run, patches_kept));
  return transaction.commit();
}

Result<Version> SqliteDatabase::log_starts_after(RunId run) {
  GLEANER_ASSIGN(const std::vector<Version> kept, complete_snapshots(*connection_, run));
  return kept.size() >= 2 ? kept[1] : Version{0};
}

// The pages of what is deleted are used again by what is written next.
Status SqliteDatabase::prune(RunId run, std::uint32_t patches_kept) {
  GLEANER_ASSIGN(const RunRow row, this->run(run));
  GLEANER_ASSIGN(const std::vector<Version> complete, complete_snapshots(*connection_, run));
  for (std::size_t i = 2; i < complete.size(); ++i) GLEANER_TRY(delete_snapshot(*connection_, run, complete[i]));
  GLEANER_ASSIGN(const Version start, log_starts_after(run));
  GLEANER_TRY(connection_->execute("DELETE FROM chunk WHERE run = ? AND version <= ? AND kind = ?", run, start,
                                   ChunkKind::aggregate));
  // Both are pruned from the oldest on: down to the newest pruned one, not through the rounds of months.
  GLEANER_TRY(
      connection_->execute("UPDATE round SET aggregate_bytes = NULL WHERE run = ?1 AND version > 0 AND version <= ?2 "
                           "AND version > coalesce((SELECT version FROM round WHERE run = ?1 AND version > 0 AND "
                           "version <= ?2 AND aggregate_bytes IS NULL ORDER BY version DESC LIMIT 1), 0)",
                           run, start));
  const std::uint32_t newest = row.version.value;
  const Version last_without_patch = std::min(start, Version{newest - std::min(newest, patches_kept)});
  GLEANER_TRY(connection_->execute("DELETE FROM chunk WHERE run = ? AND version <= ? AND kind = ?", run,
                                   last_without_patch, ChunkKind::patch));
  return connection_->execute(
      "UPDATE round SET patch_bytes = NULL WHERE run = ?1 AND version > 0 AND version <= ?2 "
      "AND version > coalesce((SELECT version FROM round WHERE run = ?1 AND version > 0 AND "
      "version <= ?2 AND patch_bytes IS NULL ORDER BY version DESC LIMIT 1), 0)",
      run, last_without_patch);
}

// A damaged snapshot is passed over for the older one, as long as the log from there is kept: the replay proves itself
// by the model hash of every version.
Result<std::optional<Snapshot>> SqliteDatabase::newest_snapshot(RunId run) {
  GLEANER_ASSIGN(const RunRow row, this->run(run));
  GLEANER_ASSIGN(const std::vector<Version> complete, complete_snapshots(*connection_, run));
  std::optional<Error> first_error;
  for (const Version version : complete) {
    GLEANER_ASSIGN(const auto found, find_snapshot(*connection_, run, version));
    auto bytes = read_chunks(*connection_, {run, version, ChunkKind::snapshot}, found->total_bytes, row.name);
    if (bytes) return Snapshot{version, *std::move(bytes)};
    if (bytes.error().code() != ErrorCode::corrupt) return fail(std::move(bytes).error());
    log_error("{}; the snapshot before it is used instead", bytes.error().message());
    if (!first_error) first_error = std::move(bytes).error();
  }
  if (first_error && complete.size() >= 2) return fail(*std::move(first_error));
  return std::nullopt;
}

Status SqliteDatabase::drop_unfinished_snapshots() {
  GLEANER_ASSIGN(const std::vector<RunRow> all, runs());
  GLEANER_ASSIGN(Transaction transaction, Transaction::begin(*connection_));
  for (const RunRow& row : all) GLEANER_TRY(delete_unfinished(*connection_, row.id));
  return transaction.commit();
}

}  // namespace gleaner
