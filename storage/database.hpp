#pragma once
// The log that is the checkpoint: one SQLite database, one connection, one thread. A committed version is one record
// (the round's complete integer aggregate, the patch, every device's answer); now and then a snapshot; recovery is the
// newest complete snapshot plus the records after it, replayed by the caller. Every call is synchronous and
// all-or-nothing; a full disk is no_space and leaves the database as it was; damaged bytes are corrupt; an I/O error is
// fatal.
//
// Large values lie in chunk rows of at most 4 MiB, each with its XXH3-64.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/bytes.hpp"
#include "common/error.hpp"
#include "common/ids.hpp"
#include "common/refusal.hpp"

namespace gleaner {

enum class RunState : std::uint8_t { active = 1, paused = 2, finished = 3, stopped = 4, waiting = 5 };
std::string_view to_string(RunState state);

struct RunRow {
  RunId id;
  std::string name;
  std::string settings;  // resolved, opaque to storage
  RunState state = RunState::waiting;
  Lineage lineage;
  double divisor = 0.0;           // fixed within the lineage; 0 = not fixed yet
  std::uint32_t rounds_done = 0;  // attempts, with and without a new version
  PlanId next_plan{1};
  Version version;               // the newest committed one
  std::uint64_t model_hash = 0;  // of that version; 0 for version 0
  std::int64_t created_unix_ms = 0;
};

// A plan as it was issued: an open round resumes with these.
struct PlanRow {
  PlanId id;
  DeviceName device;
  std::uint32_t round = 0;
  Version base;
  std::uint32_t entries_max = 0;
  std::uint32_t steps_max = 0;
  float threshold = 0.0F;
  std::int32_t clip_exponent = 0;
  std::int32_t weight_bits = 0;
  std::uint32_t samples = 0;
};

struct AnswerRow {
  PlanId plan;
  DeviceName device;
  Outcome outcome = Outcome::unknown;
  RefusalCode refusal = RefusalCode::none;
  Digest digest;
  std::uint32_t samples = 0;
  std::uint32_t compute_ms = 0;
  std::uint32_t payload_bytes = 0;
  float left = 0.0F;
  float right = 0.0F;
  float loss = 0.0F;
};

struct Traffic {  // bytes at the sockets, TLS and all
  std::uint64_t up_bytes = 0;
  std::uint64_t down_bytes = 0;
  std::uint64_t up_value_bytes = 0;
  std::uint64_t up_index_bytes = 0;
  std::uint64_t down_value_bytes = 0;
  std::uint64_t down_index_bytes = 0;

  Traffic& operator+=(const Traffic& other) {
    up_bytes += other.up_bytes;
    down_bytes += other.down_bytes;
    up_value_bytes += other.up_value_bytes;
    up_index_bytes += other.up_index_bytes;
    down_value_bytes += other.down_value_bytes;
    down_index_bytes += other.down_index_bytes;
    return *this;
  }
};

struct CommitRecord {
  Version version;  // 0: the round produced none (nothing usable arrived); then aggregate and patch are empty
  std::uint32_t round = 0;
  Bytes aggregate;  // Accumulator::to_record()
  Bytes patch;
  float patch_clip = 0.0F;
  std::uint64_t model_hash = 0;
  std::uint64_t weight = 0;
  std::uint32_t contributions = 0;
  double step_squared_norm = 0.0;
  std::vector<AnswerRow> answers;  // of this round's plans and of late ones; plans without a row stay open
  std::uint32_t late_uploads = 0;  // of the included ones, those of earlier rounds' plans
  Traffic traffic;                 // since the previous record
  std::int64_t wall_unix_ms = 0;
  std::uint32_t duration_ms = 0;
};

struct PatchRow {
  Version version;
  float clip = 0.0F;
  Bytes patch;
};

struct RoundRow {  // what `gleaner run show` and the upload rules need of a past round
  std::uint32_t round = 0;
  Version version;
  std::uint64_t model_hash = 0;
  std::uint32_t contributions = 0;
  std::uint32_t skips = 0;
  std::uint32_t refusals = 0;
  double step_squared_norm = 0.0;
  std::vector<double> left_sides;  // in device name order
  Traffic traffic;
  std::uint32_t duration_ms = 0;
  std::int64_t wall_unix_ms = 0;
  std::optional<double> accuracy;
  std::optional<double> loss;
};

struct RunEnd {
  RunState state = RunState::stopped;
  Traffic rest;  // since the last record
  std::uint32_t devices_known = 0;
};

struct RunTotals {  // over the run's life
  Traffic traffic;
  std::uint32_t devices_known = 0;  // as the run ended; 0 before, and for ends of before schema 4
  std::uint64_t uploads = 0;        // included
  std::uint64_t late_uploads = 0;   // of these, in a later round than planned; those of before schema 3 are not known
  std::uint64_t skips = 0;
  std::uint64_t refusals = 0;
  std::uint64_t lapsed_plans = 0;
  std::uint64_t empty_rounds = 0;
  std::optional<double> accuracy;  // of the newest evaluation
  std::optional<double> loss;
  Version evaluated;
};

struct DeviceRow {
  DeviceName name;
  std::string certificate_serial;
  std::int64_t first_seen_unix_ms = 0;
  std::int64_t last_seen_unix_ms = 0;
  bool revoked = false;
  double uplink_bytes_per_s = 0.0;
  double downlink_bytes_per_s = 0.0;
  double samples_per_s = 0.0;
  std::uint64_t up_bytes = 0;
  std::uint64_t down_bytes = 0;
};

struct StoredOutcome {
  Outcome outcome = Outcome::unknown;
  RefusalCode refusal = RefusalCode::none;
  Digest digest;
};

struct Snapshot {
  Version version;
  Bytes bytes;
};

class Database {
 public:
  enum class Unseen { refuse, add };     // a device that never connected
  enum class Access { serve, inspect };  // inspect: read-only, takes no lock, for doctor and check

  // Makes or migrates the schema (a backup beside the file first). serve takes the lock on PATH.lock: conflict when
  // another coordinator holds it. A file that was made by backup(), or swapped under us, gets a new lineage for every
  // run.
  // Durability::process, for simulations: what is committed outlives the process, not a power cut.
  enum class Durability { machine, process };
  static Result<std::unique_ptr<Database>> open(const std::string& path, Access access,
                                                Durability durability = Durability::machine);
  virtual ~Database() = default;

  // Runs.
  virtual Status create_run(const RunRow& row) = 0;  // conflict: the name exists
  virtual Result<std::vector<RunRow>> runs() = 0;    // oldest first
  virtual Result<RunRow> run(RunId run) = 0;
  virtual Status set_run_state(RunId run, RunState state) = 0;
  virtual Status end_run(RunId run, const RunEnd& end) = 0;  // once
  virtual Status set_divisor(RunId run, double divisor) = 0;
  virtual Status set_lineage(RunId run, Lineage lineage) = 0;  // also forgets the divisor

  // Plans: stored before the first one is sent; also advances next_plan.
  virtual Status issue_plans(RunId run, const std::vector<PlanRow>& plans) = 0;
  virtual Result<std::vector<PlanRow>> open_plans(RunId run) = 0;  // issued, no outcome yet
  virtual Result<std::optional<StoredOutcome>> outcome_of(RunId run, PlanId plan) = 0;
  virtual Result<std::vector<AnswerRow>> last_answers(RunId run) = 0;  // the newest answered plan of every device

  // The log.
  virtual Status commit(RunId run, const CommitRecord& record) = 0;
  virtual Status record_evaluation(RunId run, Version version, double accuracy, double loss) = 0;
  // Records after `from` in order, aggregate and patch filled in; answers and traffic are left empty.
  virtual Status replay(RunId run, Version from, const std::function<Status(const CommitRecord&)>& visit) = 0;
  virtual Result<std::vector<PatchRow>> patches(RunId run, Version after, Version up_to) = 0;
  virtual Result<std::vector<RoundRow>> newest_rounds(RunId run, std::uint32_t count) = 0;  // oldest of them first
  virtual Result<RunTotals> totals(RunId run) = 0;
  virtual Result<std::uint64_t> log_bytes_since_snapshot(RunId run) = 0;

  // Snapshots: written in pieces between commits, visible when finished; the two newest are kept, and the records that
  // no kept snapshot needs lose their aggregates (patches stay as long as patches_kept versions).
  virtual Status begin_snapshot(RunId run, Version version, std::uint64_t total_bytes) = 0;
  virtual Status append_snapshot(RunId run, Version version, ByteView piece) = 0;  // at most 4 MiB
  virtual Status finish_snapshot(RunId run, Version version, std::uint32_t patches_kept) = 0;
  virtual Result<std::optional<Snapshot>> newest_snapshot(RunId run) = 0;

  // Devices and audit.
  virtual Status upsert_device(const DeviceRow& row) = 0;  // revoked is only set by revoke_device
  // not_found for a name that is not known, unless it is to be added: a certificate may be stolen before its first use.
  virtual Status revoke_device(const DeviceName& name, Unseen unseen) = 0;
  virtual Status allow_device(const DeviceName& name) = 0;
  virtual Result<std::vector<DeviceRow>> devices() = 0;
  virtual Status audit(const std::string& actor, const std::string& action, const std::string& detail) = 0;
  virtual Result<std::vector<std::string>> newest_audit(std::uint32_t count) = 0;

  virtual Status backup(const std::string& path) = 0;  // a consistent copy, marked as one; refuses to overwrite
  virtual Status check() = 0;                          // integrity of pages, checksums and log continuity
  virtual Status checkpoint() = 0;                     // folds the write-ahead log back; between rounds
};

}  // namespace gleaner
