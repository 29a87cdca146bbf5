#include <fmt/format.h>

#include <algorithm>

#include "storage/sqlite_database.hpp"

namespace gleaner {
namespace {

RunRow read_run(const Statement& row) {
  return {.id = row.get<RunId>(0),
          .name = row.get<std::string>(1),
          .settings = row.get<std::string>(2),
          .state = row.get<RunState>(3),
          .lineage = row.get<Lineage>(4),
          .divisor = row.get<double>(5),
          .rounds_done = row.get<std::uint32_t>(6),
          .next_plan = row.get<PlanId>(7),
          .version = row.get<Version>(8),
          .model_hash = row.get<std::uint64_t>(9),
          .created_unix_ms = row.get<std::int64_t>(10)};
}

// All runs, or the one with that id.
Result<std::vector<RunRow>> read_runs(Connection& connection, std::optional<RunId> only) {
  GLEANER_ASSIGN(Statement rows, connection.query("SELECT id, name, settings, state, lineage, divisor, rounds_done, "
                                                  "next_plan, version, model_hash, created_unix_ms FROM run "
                                                  "WHERE ?1 IS NULL OR id = ?1 ORDER BY ordinal",
                                                  only));
  std::vector<RunRow> found;
  for (;;) {
    GLEANER_ASSIGN(const bool row, rows.step());
    if (!row) return found;
    found.push_back(read_run(rows));
  }
}

PlanRow read_plan(const Statement& row) {
  return {.id = row.get<PlanId>(0),
          .device = row.get<DeviceName>(1),
          .round = row.get<std::uint32_t>(2),
          .base = row.get<Version>(3),
          .entries_max = row.get<std::uint32_t>(4),
          .steps_max = row.get<std::uint32_t>(5),
          .threshold = row.get<float>(6),
          .clip_exponent = row.get<std::int32_t>(7),
          .weight_bits = row.get<std::int32_t>(8),
          .samples = row.get<std::uint32_t>(9)};
}

bool is_same(const PlanRow& a, const PlanRow& b) {
  return a.id == b.id && a.device == b.device && a.round == b.round && a.base == b.base &&
         a.entries_max == b.entries_max && a.samples == b.samples;
}

std::unexpected<Error> no_run(RunId run) {
  return fail(ErrorCode::not_found, fmt::format("there is no run with id {:016x}", run.value));
}

}  // namespace

std::string_view to_string(RunState state) {
  switch (state) {
    case RunState::active: return "active";
    case RunState::paused: return "paused";
    case RunState::finished: return "finished";
    case RunState::stopped: return "stopped";
    case RunState::waiting: return "waiting";
  }
  return "unknown";
}

Status SqliteDatabase::create_run(const RunRow& row) {
  GLEANER_ASSIGN(const auto holder,
                 connection_->first<RunId>("SELECT id FROM run WHERE name = ?1 OR id = ?2 LIMIT 1", row.name, row.id));
  if (holder) {
    return fail(ErrorCode::conflict, fmt::format("a run named \"{}\" exists already; choose another name", row.name));
  }
  return connection_->execute(
      "INSERT INTO run (id, ordinal, name, settings, state, lineage, divisor, rounds_done, next_plan, version, "
      "model_hash, created_unix_ms) VALUES (?, (SELECT coalesce(max(ordinal), 0) + 1 FROM run), ?, ?, ?, ?, ?, ?, ?, ?,"
      " ?, ?)",
      row.id, row.name, row.settings, row.state, row.lineage, row.divisor, row.rounds_done, row.next_plan, row.version,
      row.model_hash, row.created_unix_ms);
}

Result<std::vector<RunRow>> SqliteDatabase::runs() { return read_runs(*connection_, std::nullopt); }

Result<RunRow> SqliteDatabase::run(RunId run) {
  GLEANER_ASSIGN(const std::vector<RunRow> found, read_runs(*connection_, run));
  if (found.empty()) return no_run(run);
  return found.front();
}

Status SqliteDatabase::set_run_state(RunId run, RunState state) {
  GLEANER_TRY(connection_->execute("UPDATE run SET state = ? WHERE id = ?", state, run));
  if (connection_->changes() == 0) return no_run(run);
  return {};
}

Status SqliteDatabase::end_run(RunId run, const RunEnd& end) {
  const Traffic& rest = end.rest;
  GLEANER_TRY(connection_->execute(
      "UPDATE run SET state = ?, rest_up_bytes = ?, rest_down_bytes = ?, rest_up_value_bytes = ?, "
      "rest_up_index_bytes = ?, rest_down_value_bytes = ?, rest_down_index_bytes = ?, devices_known = ? WHERE id = ?",
      end.state, rest.up_bytes, rest.down_bytes, rest.up_value_bytes, rest.up_index_bytes, rest.down_value_bytes,
      rest.down_index_bytes, end.devices_known, run));
  if (connection_->changes() == 0) return no_run(run);
  return {};
}

Status SqliteDatabase::set_divisor(RunId run, double divisor) {
  GLEANER_TRY(connection_->execute("UPDATE run SET divisor = ? WHERE id = ?", divisor, run));
  if (connection_->changes() == 0) return no_run(run);
  return {};
}

Status SqliteDatabase::set_lineage(RunId run, Lineage lineage) {
  GLEANER_TRY(connection_->execute("UPDATE run SET lineage = ?, divisor = 0 WHERE id = ?", lineage, run));
  if (connection_->changes() == 0) return no_run(run);
  return {};
}

Status SqliteDatabase::issue_plans(RunId run, const std::vector<PlanRow>& plans) {
  return connection_->with_room([&] { return issue_plans_once(run, plans); });
}

// A plan that is stored already is the retry of an unclear result; any other old id would be a reuse.
Status SqliteDatabase::issue_plans_once(RunId run, const std::vector<PlanRow>& plans) {
  GLEANER_ASSIGN(const RunRow row, this->run(run));
  GLEANER_ASSIGN(const std::vector<PlanRow> stored, open_plans(run));
  PlanId next_plan = row.next_plan;
  GLEANER_ASSIGN(Transaction transaction, Transaction::begin(*connection_));
  // Here and not in the commit that answers them: this transaction writes the plans' pages anyway.
  GLEANER_TRY(connection_->execute(
      "DELETE FROM plan WHERE run = ? AND EXISTS (SELECT 1 FROM answer WHERE answer.run = plan.run "
      "AND answer.plan = plan.id)",
      run));
  for (const PlanRow& plan : plans) {
    if (plan.id < row.next_plan) {
      if (std::ranges::any_of(stored, [&](const PlanRow& other) { return is_same(plan, other); })) continue;
      return fail(ErrorCode::conflict, fmt::format("run {}: plan id {} was used before; the next free one is {}",
                                                   row.name, plan.id.value, row.next_plan.value));
    }
    GLEANER_TRY(connection_->execute(
        "INSERT INTO plan (run, id, device, round, base, entries_max, steps_max, threshold, clip_exponent, weight_bits,"
        " samples) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        run, plan.id, plan.device, plan.round, plan.base, plan.entries_max, plan.steps_max, plan.threshold,
        plan.clip_exponent, plan.weight_bits, plan.samples));
    next_plan = std::max(next_plan, PlanId{plan.id.value + 1});
  }
  GLEANER_TRY(connection_->execute("UPDATE run SET next_plan = ? WHERE id = ?", next_plan, run));
  return transaction.commit();
}

Result<std::vector<PlanRow>> SqliteDatabase::open_plans(RunId run) {
  GLEANER_ASSIGN(Statement rows,
                 connection_->query("SELECT id, device, round, base, entries_max, steps_max, threshold, clip_exponent, "
                                    "weight_bits, samples FROM plan WHERE run = ? AND NOT EXISTS (SELECT 1 FROM "
                                    "answer WHERE answer.run = plan.run AND answer.plan = plan.id) ORDER BY id",
                                    run));
  std::vector<PlanRow> plans;
  for (;;) {
    GLEANER_ASSIGN(const bool row, rows.step());
    if (!row) return plans;
    plans.push_back(read_plan(rows));
  }
}

Result<std::optional<StoredOutcome>> SqliteDatabase::outcome_of(RunId run, PlanId plan) {
  GLEANER_ASSIGN(Statement row, connection_->query("SELECT outcome, refusal, digest FROM answer "
                                                   "WHERE run = ? AND plan = ?",
                                                   run, plan));
  GLEANER_ASSIGN(const bool found, row.step());
  if (!found) return std::nullopt;
  return StoredOutcome{row.get<Outcome>(0), row.get<RefusalCode>(1), row.get<Digest>(2)};
}

// With max(), the other columns are those of the row that has it. Asked at start-up only: it reads every answer.
Result<std::vector<AnswerRow>> SqliteDatabase::last_answers(RunId run) {
  GLEANER_ASSIGN(Statement rows,
                 connection_->query("SELECT max(plan), device, outcome, refusal, digest, samples, compute_ms, "
                                    "payload_bytes, left_side, right_side, loss FROM answer WHERE run = ? "
                                    "GROUP BY device ORDER BY device",
                                    run));
  std::vector<AnswerRow> answers;
  for (;;) {
    GLEANER_ASSIGN(const bool row, rows.step());
    if (!row) return answers;
    answers.push_back({.plan = rows.get<PlanId>(0),
                       .device = rows.get<DeviceName>(1),
                       .outcome = rows.get<Outcome>(2),
                       .refusal = rows.get<RefusalCode>(3),
                       .digest = rows.get<Digest>(4),
                       .samples = rows.get<std::uint32_t>(5),
                       .compute_ms = rows.get<std::uint32_t>(6),
                       .payload_bytes = rows.get<std::uint32_t>(7),
                       .left = rows.get<float>(8),
                       .right = rows.get<float>(9),
                       .loss = rows.get<float>(10)});
  }
}

Status SqliteDatabase::answer_plan(RunId run, const AnswerRow& answer) {
  if (answer.outcome == Outcome::unknown) {
    return fail(ErrorCode::bad_input, fmt::format("plan {}: an answer needs an outcome", answer.plan.value));
  }
  // One row of values: an INSERT from a SELECT, or a DELETE of the plan, would copy the pages that it changes first.
  const Status stored = connection_->execute(
      "INSERT INTO answer (run, plan, device, outcome, refusal, digest, samples, compute_ms, payload_bytes, left_side, "
      "right_side, loss) VALUES (?1, ?2, (SELECT device FROM plan WHERE run = ?1 AND id = ?2 AND device = ?3), ?4, ?5, "
      "?6, ?7, ?8, ?9, ?10, ?11, ?12)",
      run, answer.plan, answer.device, answer.outcome, answer.refusal, answer.digest, answer.samples, answer.compute_ms,
      answer.payload_bytes, answer.left, answer.right, answer.loss);
  if (!stored && stored.error().code() == ErrorCode::conflict) {
    return fail(ErrorCode::conflict, fmt::format("plan {} is not open for device {}: it was answered or never issued",
                                                 answer.plan.value, answer.device.value));
  }
  return stored;
}

}  // namespace gleaner
