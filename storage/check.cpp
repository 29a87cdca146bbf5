#include <fmt/format.h>

#include "storage/sqlite_database.hpp"

namespace gleaner {
namespace {

std::unexpected<Error> damaged(const Connection& connection, std::string_view what) {
  return fail(ErrorCode::corrupt, fmt::format("{}: {}; restore a backup", connection.path(), what));
}

struct LoggedRound {
  Version version;
  std::uint64_t model_hash = 0;
  std::optional<std::uint64_t> aggregate_bytes;
  std::optional<std::uint64_t> patch_bytes;
};

Result<std::vector<LoggedRound>> read_log(Connection& connection, RunId run) {
  GLEANER_ASSIGN(Statement rows, connection.query("SELECT version, model_hash, aggregate_bytes, patch_bytes FROM round "
                                                  "WHERE run = ? AND version > 0 ORDER BY round",
                                                  run));
  std::vector<LoggedRound> log;
  for (;;) {
    GLEANER_ASSIGN(const bool row, rows.step());
    if (!row) return log;
    log.push_back({rows.get<Version>(0), rows.get<std::uint64_t>(1), rows.get<std::optional<std::uint64_t>>(2),
                   rows.get<std::optional<std::uint64_t>>(3)});
  }
}

}  // namespace

// One read transaction, so that beside a running coordinator everything is seen at one moment.
Status SqliteDatabase::check() {
  GLEANER_TRY(connection_->in_place());
  GLEANER_ASSIGN(Transaction transaction, Transaction::begin(*connection_, Transaction::Kind::read));
  GLEANER_TRY(check_pages());
  GLEANER_ASSIGN(const std::vector<RunRow> all, runs());
  for (const RunRow& row : all) {
    GLEANER_TRY(check_run(row));
    GLEANER_TRY(check_log(row));
    GLEANER_TRY(check_snapshots(row));
  }
  GLEANER_TRY(check_owners());
  return transaction.commit();
}

Status SqliteDatabase::check_pages() {
  GLEANER_ASSIGN(const auto pages, connection_->first<std::string>("PRAGMA quick_check(1)"));
  if (pages != "ok") return damaged(*connection_, pages.value_or("quick_check says nothing"));
  GLEANER_ASSIGN(const auto orphan, connection_->first<std::string>("PRAGMA foreign_key_check"));
  if (orphan) return damaged(*connection_, fmt::format("a row of table {} belongs to no run", *orphan));
  return {};
}

Status SqliteDatabase::check_run(const RunRow& row) {
  GLEANER_ASSIGN(const auto rounds,
                 connection_->first<std::uint32_t>("SELECT count(*) FROM round WHERE run = ?", row.id));
  if (rounds != row.rounds_done) {
    return damaged(*connection_, fmt::format("run {}: {} rounds are stored, {} were done", row.name, rounds.value_or(0),
                                             row.rounds_done));
  }
  // A plan's row may lie beside its answer until the next plans are issued.
  GLEANER_ASSIGN(const auto plan,
                 connection_->first<std::uint64_t>(
                     "SELECT plan FROM answer WHERE run = ?1 AND plan >= ?2 UNION ALL "
                     "SELECT id FROM plan AS p WHERE run = ?1 AND (id >= ?2 OR EXISTS (SELECT 1 FROM answer AS a WHERE "
                     "a.run = p.run AND a.plan = p.id AND a.device <> p.device)) LIMIT 1",
                     row.id, row.next_plan));
  if (plan) {
    return damaged(*connection_,
                   fmt::format("run {}: plan {} was never issued, or is answered by another device", row.name, *plan));
  }
  return {};
}

Status SqliteDatabase::check_log(const RunRow& row) {
  GLEANER_ASSIGN(const std::vector<LoggedRound> log, read_log(*connection_, row.id));
  GLEANER_ASSIGN(const Version start, log_starts_after(row.id));
  Version expected{0};
  std::uint64_t model_hash = log.empty() ? row.model_hash : 0;
  for (const LoggedRound& round : log) {
    expected = next(expected);
    if (round.version != expected) {
      return damaged(*connection_, fmt::format("run {}: version {} is missing", row.name, expected.value));
    }
    if (expected > start && !(round.aggregate_bytes && round.patch_bytes)) {
      return damaged(*connection_,
                     fmt::format("run {}: the record of version {} lacks its bytes", row.name, expected.value));
    }
    if (round.aggregate_bytes) {
      GLEANER_TRY(
          check_chunks(*connection_, {row.id, expected, ChunkKind::aggregate}, *round.aggregate_bytes, row.name));
    }
    if (round.patch_bytes) {
      GLEANER_TRY(check_chunks(*connection_, {row.id, expected, ChunkKind::patch}, *round.patch_bytes, row.name));
    }
    model_hash = round.model_hash;
  }
  if (expected != row.version || model_hash != row.model_hash) {
    return damaged(*connection_, fmt::format("run {}: the log ends at version {}, the run is at version {}{}", row.name,
                                             expected.value, row.version.value,
                                             expected == row.version ? " with another model hash" : ""));
  }
  return {};
}

Status SqliteDatabase::check_snapshots(const RunRow& row) {
  GLEANER_ASSIGN(Statement rows,
                 connection_->query("SELECT version, received_bytes, total_bytes, complete FROM snapshot "
                                    "WHERE run = ? ORDER BY version",
                                    row.id));
  for (;;) {
    GLEANER_ASSIGN(const bool found, rows.step());
    if (!found) return {};
    const auto version = rows.get<Version>(0);
    const auto received = rows.get<std::uint64_t>(1);
    const auto total = rows.get<std::uint64_t>(2);
    const bool complete = rows.get<std::uint32_t>(3) != 0;
    if (version > row.version || received > total || (complete && received != total)) {
      return damaged(*connection_, fmt::format("run {}: the snapshot of version {} has {} of {} bytes", row.name,
                                               version.value, received, total));
    }
    GLEANER_TRY(check_chunks(*connection_, {row.id, version, ChunkKind::snapshot}, received, row.name));
  }
}

// Every chunk has an owner that says so.
Status SqliteDatabase::check_owners() {
  GLEANER_ASSIGN(Statement rows,
                 connection_->query(
                     "SELECT c.run, c.version, c.kind FROM chunk AS c WHERE NOT CASE c.kind "
                     "WHEN 1 THEN EXISTS (SELECT 1 FROM round AS r WHERE r.run = c.run AND r.version = c.version AND "
                     "r.version > 0 AND r.aggregate_bytes IS NOT NULL) "
                     "WHEN 2 THEN EXISTS (SELECT 1 FROM round AS r WHERE r.run = c.run AND r.version = c.version AND "
                     "r.version > 0 AND r.patch_bytes IS NOT NULL) "
                     "WHEN 3 THEN EXISTS (SELECT 1 FROM snapshot AS s WHERE s.run = c.run AND s.version = c.version) "
                     "ELSE 0 END LIMIT 1"));
  GLEANER_ASSIGN(const bool found, rows.step());
  if (!found) return {};
  return damaged(*connection_, fmt::format("{}: a chunk without an owner",
                                           to_string({rows.get<RunId>(0), rows.get<Version>(1), rows.get<ChunkKind>(2)},
                                                     fmt::format("{:016x}", rows.get<std::uint64_t>(0)))));
}

}  // namespace gleaner
