#pragma once
// The one Database there is, over one SQLite connection. Its functions lie in open.cpp (opening, identity, copies),
// runs.cpp (runs and plans), log.cpp (records), snapshots.cpp, devices.cpp (devices and audit) and check.cpp.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "storage/chunks.hpp"
#include "storage/database.hpp"
#include "storage/lock_file.hpp"
#include "storage/sqlite.hpp"

namespace gleaner {

class SqliteDatabase final : public Database {
 public:
  static Result<std::unique_ptr<SqliteDatabase>> open(const std::string& path, Access access,
                                                      const Connection::Limits& limits);

  Status create_run(const RunRow& row) override;
  Result<std::vector<RunRow>> runs() override;
  Result<RunRow> run(RunId run) override;
  Status set_run_state(RunId run, RunState state) override;
  Status end_run(RunId run, const RunEnd& end) override;
  Status set_divisor(RunId run, double divisor) override;
  Status set_lineage(RunId run, Lineage lineage) override;

  Status issue_plans(RunId run, const std::vector<PlanRow>& plans) override;
  Result<std::vector<PlanRow>> open_plans(RunId run) override;
  Result<std::optional<StoredOutcome>> outcome_of(RunId run, PlanId plan) override;
  Result<std::vector<AnswerRow>> last_answers(RunId run) override;

  Status commit(RunId run, const CommitRecord& record) override;
  Status record_evaluation(RunId run, Version version, double accuracy, double loss) override;
  Status replay(RunId run, Version from, const std::function<Status(const CommitRecord&)>& visit) override;
  Result<std::vector<PatchRow>> patches(RunId run, Version after, Version up_to) override;
  Result<std::vector<RoundRow>> newest_rounds(RunId run, std::uint32_t count) override;
  Result<RunTotals> totals(RunId run) override;
  Result<std::uint64_t> log_bytes_since_snapshot(RunId run) override;

  Status begin_snapshot(RunId run, Version version, std::uint64_t total_bytes) override;
  Status append_snapshot(RunId run, Version version, ByteView piece) override;
  Status finish_snapshot(RunId run, Version version, std::uint32_t patches_kept) override;
  Result<std::optional<Snapshot>> newest_snapshot(RunId run) override;

  Status upsert_device(const DeviceRow& row) override;
  Status revoke_device(const DeviceName& name, Unseen unseen) override;
  Status allow_device(const DeviceName& name) override;
  Result<std::vector<DeviceRow>> devices() override;
  Status audit(const std::string& actor, const std::string& action, const std::string& detail) override;
  Result<std::vector<std::string>> newest_audit(std::uint32_t count) override;

  Status backup(const std::string& path) override;
  Status check() override;
  Status checkpoint() override;

  // The version whose aggregate is the first that may be gone plus one: the second newest snapshot, or the seeded
  // model, which counts as the oldest one.
  Result<Version> log_starts_after(RunId run);

 private:
  SqliteDatabase(std::optional<LockFile> lock, std::unique_ptr<Connection> connection)
      : lock_(std::move(lock)), connection_(std::move(connection)) {}

  Status renew_identity(bool is_copy);
  Status start_new_lineages();
  Status drop_unfinished_snapshots();

  // In one transaction each.
  Status commit_once(RunId run, const CommitRecord& record);
  Status issue_plans_once(RunId run, const std::vector<PlanRow>& plans);

  // Both inside the caller's transaction.
  Status answer_plan(RunId run, const AnswerRow& answer);
  Status insert_round(RunId run, const CommitRecord& record);
  Result<bool> is_committed(const RunRow& row, const CommitRecord& record);
  Status prune(RunId run, std::uint32_t patches_kept);

  Status check_pages();
  Status check_run(const RunRow& row);
  Status check_log(const RunRow& row);
  Status check_snapshots(const RunRow& row);
  Status check_owners();

  std::optional<LockFile> lock_;  // released after the connection is closed
  std::unique_ptr<Connection> connection_;
};

}  // namespace gleaner
