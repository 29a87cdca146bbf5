#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "common/check.hpp"
#include "common/text.hpp"
#include "storage/sqlite_database.hpp"

namespace gleaner {
namespace {

bool counts_for_upload_rules(const AnswerRow& answer) {
  return answer.outcome == Outcome::included || answer.outcome == Outcome::skipped;
}

std::vector<float> left_sides_of(const std::vector<AnswerRow>& answers) {
  std::vector<const AnswerRow*> ordered;
  for (const AnswerRow& answer : answers) {
    if (counts_for_upload_rules(answer)) ordered.push_back(&answer);
  }
  std::ranges::sort(ordered, {}, [](const AnswerRow* answer) { return answer->device; });
  std::vector<float> sides;
  for (const AnswerRow* answer : ordered) sides.push_back(answer->left);
  return sides;
}

RoundRow read_round(const Statement& row) {
  RoundRow round{.round = row.get<std::uint32_t>(0),
                 .version = row.get<Version>(1),
                 .model_hash = row.get<std::uint64_t>(2),
                 .contributions = row.get<std::uint32_t>(3),
                 .skips = row.get<std::uint32_t>(4),
                 .refusals = row.get<std::uint32_t>(5),
                 .step_squared_norm = row.get<double>(6),
                 .left_sides = {},
                 .traffic = {.up_bytes = row.get<std::uint64_t>(8),
                             .down_bytes = row.get<std::uint64_t>(9),
                             .up_value_bytes = row.get<std::uint64_t>(10),
                             .up_index_bytes = row.get<std::uint64_t>(11),
                             .down_value_bytes = row.get<std::uint64_t>(12),
                             .down_index_bytes = row.get<std::uint64_t>(13)},
                 .duration_ms = row.get<std::uint32_t>(14),
                 .wall_unix_ms = row.get<std::int64_t>(15),
                 .accuracy = row.get<std::optional<double>>(16),
                 .loss = row.get<std::optional<double>>(17)};
  ByteReader sides(row.get<ByteView>(7));
  while (sides.remaining() >= sizeof(float)) round.left_sides.push_back(double{sides.get<float>()});
  return round;
}

Error damaged(const Connection& connection, const RunRow& row, std::string_view what) {
  return {ErrorCode::corrupt, fmt::format("{}: run {}: {}; restore a backup", connection.path(), row.name, what)};
}

// The record of one version without its answers and traffic.
Result<CommitRecord> read_record(Connection& connection, const RunRow& row, Version version) {
  CommitRecord record;
  std::optional<std::uint64_t> aggregate_bytes;
  std::optional<std::uint64_t> patch_bytes;
  {
    GLEANER_ASSIGN(Statement found,
                   connection.query("SELECT round, model_hash, weight, contributions, step_squared_norm, patch_clip, "
                                    "wall_unix_ms, duration_ms, aggregate_bytes, patch_bytes FROM round "
                                    "WHERE run = ? AND version = ? AND version > 0",
                                    row.id, version));
    GLEANER_ASSIGN(const bool is_there, found.step());
    if (!is_there) return fail(damaged(connection, row, fmt::format("version {} is missing", version.value)));
    record.version = version;
    record.round = found.get<std::uint32_t>(0);
    record.model_hash = found.get<std::uint64_t>(1);
    record.weight = found.get<std::uint64_t>(2);
    record.contributions = found.get<std::uint32_t>(3);
    record.step_squared_norm = found.get<double>(4);
    record.patch_clip = found.get<float>(5);
    record.wall_unix_ms = found.get<std::int64_t>(6);
    record.duration_ms = found.get<std::uint32_t>(7);
    aggregate_bytes = found.get<std::optional<std::uint64_t>>(8);
    patch_bytes = found.get<std::optional<std::uint64_t>>(9);
  }
  if (!aggregate_bytes) {
    return fail(ErrorCode::not_found, fmt::format("{}: run {}: the aggregate of version {} was pruned; replay from a "
                                                  "newer snapshot",
                                                  connection.path(), row.name, version.value));
  }
  GLEANER_ASSIGN(record.aggregate,
                 read_chunks(connection, {row.id, version, ChunkKind::aggregate}, *aggregate_bytes, row.name));
  if (patch_bytes) {
    GLEANER_ASSIGN(record.patch, read_chunks(connection, {row.id, version, ChunkKind::patch}, *patch_bytes, row.name));
  }
  return record;
}

}  // namespace

// True when this very record is stored: the caller repeats it because it never learned how the first try ended.
Result<bool> SqliteDatabase::is_committed(const RunRow& row, const CommitRecord& record) {
  GLEANER_ASSIGN(
      Statement found,
      connection_->query("SELECT version, model_hash FROM round WHERE run = ? AND round = ?", row.id, record.round));
  GLEANER_ASSIGN(const bool is_there, found.step());
  if (!is_there) return false;
  bool is_same = found.get<Version>(0) == record.version && found.get<std::uint64_t>(1) == record.model_hash;
  for (const AnswerRow& answer : record.answers) {
    GLEANER_ASSIGN(const auto stored, outcome_of(row.id, answer.plan));
    is_same = is_same && stored && stored->outcome == answer.outcome && stored->digest == answer.digest;
  }
  if (is_same) return true;
  return fail(ErrorCode::conflict,
              fmt::format("run {}: round {} is committed already with another record (version {}, "
                          "model {})",
                          row.name, record.round, found.get<std::uint32_t>(0), to_hex(found.get<std::uint64_t>(1))));
}

Status SqliteDatabase::commit(RunId run, const CommitRecord& record) {
  return connection_->with_room([&] { return commit_once(run, record); });
}

Status SqliteDatabase::commit_once(RunId run, const CommitRecord& record) {
  GLEANER_ASSIGN(const RunRow row, this->run(run));
  GLEANER_ASSIGN(const bool is_repeated, is_committed(row, record));
  if (is_repeated) return {};
  const bool makes_version = record.version.value != 0;
  if (!makes_version && !(record.aggregate.empty() && record.patch.empty())) {
    return fail(ErrorCode::bad_input, fmt::format("run {}: round {} makes no version, yet has an aggregate or a patch",
                                                  row.name, record.round));
  }
  if (makes_version && record.version != next(row.version)) {
    return fail(ErrorCode::conflict, fmt::format("run {}: version {} cannot follow version {}", row.name,
                                                 record.version.value, row.version.value));
  }
  GLEANER_ASSIGN(const auto newest,
                 connection_->first<std::optional<std::uint32_t>>("SELECT max(round) FROM round WHERE run = ?", run));
  if (newest && *newest && record.round <= **newest) {
    return fail(ErrorCode::conflict,
                fmt::format("run {}: round {} cannot follow round {}", row.name, record.round, **newest));
  }

  GLEANER_ASSIGN(Transaction transaction, Transaction::begin(*connection_));
  GLEANER_TRY(insert_round(run, record));
  if (makes_version) {
    GLEANER_TRY(write_chunks(*connection_, {run, record.version, ChunkKind::aggregate}, record.aggregate));
    GLEANER_TRY(write_chunks(*connection_, {run, record.version, ChunkKind::patch}, record.patch));
  }
  for (const AnswerRow& answer : record.answers) GLEANER_TRY(answer_plan(run, answer));
  GLEANER_TRY(connection_->execute(
      "UPDATE run SET rounds_done = rounds_done + 1, version = ?, model_hash = ? WHERE id = ?",
      makes_version ? record.version : row.version, makes_version ? record.model_hash : row.model_hash, run));
  failpoint("storage.commit.before_end");
  return transaction.commit();
}

Status SqliteDatabase::insert_round(RunId run, const CommitRecord& record) {
  const std::vector<float> left_sides = left_sides_of(record.answers);
  const auto count = [&](Outcome outcome) { return std::ranges::count(record.answers, outcome, &AnswerRow::outcome); };
  const auto uploads = count(Outcome::included);
  const auto skips = count(Outcome::skipped);
  const auto refusals = count(Outcome::refused);
  const auto lapsed_plans = std::ssize(record.answers) - uploads - skips - refusals;
  const bool makes_version = record.version.value != 0;
  const auto size_of = [&](const Bytes& bytes) {
    return makes_version ? std::optional<std::uint64_t>(bytes.size()) : std::nullopt;
  };
  const Traffic& traffic = record.traffic;
  return connection_->execute(
      "INSERT INTO round (run, round, version, model_hash, weight, contributions, uploads, late_uploads, skips, "
      "refusals, lapsed_plans, patch_clip, step_squared_norm, left_sides, up_bytes, down_bytes, up_value_bytes, "
      "up_index_bytes, "
      "down_value_bytes, "
      "down_index_bytes, wall_unix_ms, duration_ms, aggregate_bytes, patch_bytes) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      run, record.round, record.version, record.model_hash, record.weight, record.contributions, uploads,
      record.late_uploads, skips, refusals, lapsed_plans, record.patch_clip, record.step_squared_norm,
      std::as_bytes(std::span(left_sides)), traffic.up_bytes, traffic.down_bytes, traffic.up_value_bytes,
      traffic.up_index_bytes, traffic.down_value_bytes, traffic.down_index_bytes, record.wall_unix_ms,
      record.duration_ms, size_of(record.aggregate), size_of(record.patch));
}

Status SqliteDatabase::record_evaluation(RunId run, Version version, double accuracy, double loss) {
  GLEANER_TRY(
      connection_->execute("UPDATE round SET accuracy = ?, loss = ? "
                           "WHERE run = ? AND version = ? AND version > 0",
                           accuracy, loss, run, version));
  if (connection_->changes() == 0) {
    return fail(ErrorCode::not_found,
                fmt::format("run {:016x} has no round that made version {}", run.value, version.value));
  }
  return {};
}

Status SqliteDatabase::replay(RunId run, Version from, const std::function<Status(const CommitRecord&)>& visit) {
  GLEANER_ASSIGN(const RunRow row, this->run(run));
  if (from > row.version) {
    return fail(damaged(*connection_, row,
                        fmt::format("version {} is missing, the newest is {}", from.value, row.version.value)));
  }
  for (Version at = from; at < row.version;) {
    at = next(at);
    GLEANER_ASSIGN(const CommitRecord record, read_record(*connection_, row, at));
    if (at == row.version && record.model_hash != row.model_hash) {
      return fail(damaged(*connection_, row, fmt::format("version {} has another model hash than the run", at.value)));
    }
    GLEANER_TRY(visit(record));
  }
  return {};
}

Result<std::vector<PatchRow>> SqliteDatabase::patches(RunId run, Version after, Version up_to) {
  GLEANER_ASSIGN(const RunRow row, this->run(run));
  struct Found {
    PatchRow patch;
    std::uint64_t bytes;
  };
  std::vector<Found> found;
  {
    GLEANER_ASSIGN(Statement rows,
                   connection_->query("SELECT version, patch_clip, patch_bytes FROM round WHERE run = ? "
                                      "AND version > ? AND version <= ? AND version > 0 AND patch_bytes IS NOT NULL "
                                      "ORDER BY version",
                                      run, after, up_to));
    for (;;) {
      GLEANER_ASSIGN(const bool is_there, rows.step());
      if (!is_there) break;
      found.push_back({{rows.get<Version>(0), rows.get<float>(1), {}}, rows.get<std::uint64_t>(2)});
    }
  }
  std::vector<PatchRow> patches;
  for (Found& each : found) {
    GLEANER_ASSIGN(each.patch.patch,
                   read_chunks(*connection_, {run, each.patch.version, ChunkKind::patch}, each.bytes, row.name));
    patches.push_back(std::move(each.patch));
  }
  return patches;
}

Result<std::vector<RoundRow>> SqliteDatabase::newest_rounds(RunId run, std::uint32_t count) {
  GLEANER_ASSIGN(Statement rows,
                 connection_->query("SELECT round, version, model_hash, contributions, skips, refusals, "
                                    "step_squared_norm, left_sides, up_bytes, down_bytes, up_value_bytes, "
                                    "up_index_bytes, down_value_bytes, down_index_bytes, duration_ms, wall_unix_ms, "
                                    "accuracy, loss FROM round WHERE run = ? ORDER BY round DESC LIMIT ?",
                                    run, count));
  std::vector<RoundRow> rounds;
  for (;;) {
    GLEANER_ASSIGN(const bool row, rows.step());
    if (!row) break;
    rounds.push_back(read_round(rows));
  }
  std::ranges::reverse(rounds);
  return rounds;
}

// The first six columns.
Traffic read_traffic(Statement& row) {
  return {.up_bytes = row.get<std::uint64_t>(0),
          .down_bytes = row.get<std::uint64_t>(1),
          .up_value_bytes = row.get<std::uint64_t>(2),
          .up_index_bytes = row.get<std::uint64_t>(3),
          .down_value_bytes = row.get<std::uint64_t>(4),
          .down_index_bytes = row.get<std::uint64_t>(5)};
}

// From the rounds alone: a run of months has a hundred times as many answers.
Result<RunTotals> SqliteDatabase::totals(RunId run) {
  RunTotals totals;
  {
    GLEANER_ASSIGN(Statement sums,
                   connection_->query("SELECT coalesce(sum(up_bytes), 0), coalesce(sum(down_bytes), 0), "
                                      "coalesce(sum(up_value_bytes), 0), coalesce(sum(up_index_bytes), 0), "
                                      "coalesce(sum(down_value_bytes), 0), coalesce(sum(down_index_bytes), 0), "
                                      "coalesce(sum(uploads), 0), coalesce(sum(skips), 0), "
                                      "coalesce(sum(refusals), 0), coalesce(sum(lapsed_plans), 0), "
                                      "count(*) FILTER (WHERE version = 0), coalesce(sum(late_uploads), 0) FROM round "
                                      "WHERE run = ?",
                                      run));
    GLEANER_TRY(sums.step());
    totals.traffic = read_traffic(sums);
    totals.uploads = sums.get<std::uint64_t>(6);
    totals.skips = sums.get<std::uint64_t>(7);
    totals.refusals = sums.get<std::uint64_t>(8);
    totals.lapsed_plans = sums.get<std::uint64_t>(9);
    totals.empty_rounds = sums.get<std::uint64_t>(10);
    totals.late_uploads = sums.get<std::uint64_t>(11);
  }
  GLEANER_ASSIGN(Statement end,
                 connection_->query("SELECT rest_up_bytes, rest_down_bytes, rest_up_value_bytes, rest_up_index_bytes, "
                                    "rest_down_value_bytes, rest_down_index_bytes, devices_known FROM run WHERE id = ?",
                                    run));
  GLEANER_ASSIGN(const bool known, end.step());
  if (known) {
    totals.traffic += read_traffic(end);
    totals.devices_known = end.get<std::uint32_t>(6);
  }
  GLEANER_ASSIGN(Statement newest, connection_->query("SELECT version, accuracy, loss FROM round WHERE run = ? AND "
                                                      "version > 0 AND accuracy IS NOT NULL "
                                                      "ORDER BY version DESC LIMIT 1",
                                                      run));
  GLEANER_ASSIGN(const bool evaluated, newest.step());
  if (evaluated) {
    totals.evaluated = newest.get<Version>(0);
    totals.accuracy = newest.get<std::optional<double>>(1);
    totals.loss = newest.get<std::optional<double>>(2);
  }
  return totals;
}

Result<std::uint64_t> SqliteDatabase::log_bytes_since_snapshot(RunId run) {
  GLEANER_ASSIGN(const auto bytes,
                 connection_->first<std::uint64_t>(
                     "SELECT coalesce(sum(coalesce(aggregate_bytes, 0) + coalesce(patch_bytes, 0)), 0) FROM round "
                     "WHERE run = ?1 AND version > 0 AND version > (SELECT coalesce(max(version), 0) FROM snapshot "
                     "WHERE run = ?1 AND complete = 1)",
                     run));
  return bytes.value_or(0);
}

}  // namespace gleaner
