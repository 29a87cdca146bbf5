#include "storage/schema.hpp"

#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "common/log.hpp"

namespace gleaner {
namespace {

// Identifiers and hashes of 64 bits are stored by their bits, so half of them show as negative numbers.
constexpr const char* kFirstTables = R"sql(
CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE run (
  id              INTEGER PRIMARY KEY,
  ordinal         INTEGER NOT NULL UNIQUE,  -- in order of creation
  name            TEXT    NOT NULL UNIQUE,
  settings        TEXT    NOT NULL,
  state           INTEGER NOT NULL,
  lineage         INTEGER NOT NULL,
  divisor         REAL    NOT NULL,
  rounds_done     INTEGER NOT NULL,
  next_plan       INTEGER NOT NULL,
  version         INTEGER NOT NULL,
  model_hash      INTEGER NOT NULL,
  created_unix_ms INTEGER NOT NULL
) STRICT;

-- Issued; the answer takes the plan's place.
CREATE TABLE plan (
  run           INTEGER NOT NULL REFERENCES run,
  id            INTEGER NOT NULL,
  device        TEXT    NOT NULL,
  round         INTEGER NOT NULL,
  base          INTEGER NOT NULL,
  entries_max   INTEGER NOT NULL,
  steps_max     INTEGER NOT NULL,
  threshold     REAL,
  clip_exponent INTEGER NOT NULL,
  weight_bits   INTEGER NOT NULL,
  samples       INTEGER NOT NULL,
  PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE answer (
  run           INTEGER NOT NULL REFERENCES run,
  plan          INTEGER NOT NULL,
  device        TEXT    NOT NULL,
  outcome       INTEGER NOT NULL,
  refusal       INTEGER NOT NULL,
  digest        INTEGER NOT NULL,
  samples       INTEGER NOT NULL,
  compute_ms    INTEGER NOT NULL,
  payload_bytes INTEGER NOT NULL,
  left_side     REAL,
  right_side    REAL,
  loss          REAL,
  PRIMARY KEY (run, plan)
) STRICT, WITHOUT ROWID;

-- One row an attempt; version 0 where it made none.
CREATE TABLE round (
  run               INTEGER NOT NULL REFERENCES run,
  round             INTEGER NOT NULL,
  version           INTEGER NOT NULL,
  model_hash        INTEGER NOT NULL,
  weight            INTEGER NOT NULL,
  contributions     INTEGER NOT NULL,
  uploads           INTEGER NOT NULL,  -- answers by outcome: included,
  skips             INTEGER NOT NULL,
  refusals          INTEGER NOT NULL,
  lapsed_plans      INTEGER NOT NULL,  -- and put back
  patch_clip        REAL,
  step_squared_norm REAL,
  left_sides        BLOB    NOT NULL,  -- f32 each, in device name order
  up_bytes          INTEGER NOT NULL,
  down_bytes        INTEGER NOT NULL,
  up_value_bytes    INTEGER NOT NULL,
  up_index_bytes    INTEGER NOT NULL,
  down_value_bytes  INTEGER NOT NULL,
  down_index_bytes  INTEGER NOT NULL,
  wall_unix_ms      INTEGER NOT NULL,
  duration_ms       INTEGER NOT NULL,
  accuracy          REAL,
  loss              REAL,
  aggregate_bytes   INTEGER,           -- NULL once pruned
  patch_bytes       INTEGER,
  PRIMARY KEY (run, round)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX round_version ON round (run, version) WHERE version > 0;

CREATE TABLE snapshot (
  run            INTEGER NOT NULL REFERENCES run,
  version        INTEGER NOT NULL,
  total_bytes    INTEGER NOT NULL,
  received_bytes INTEGER NOT NULL,
  pieces         INTEGER NOT NULL,
  complete       INTEGER NOT NULL,
  PRIMARY KEY (run, version)
) STRICT, WITHOUT ROWID;

-- The bytes of aggregates (kind 1), patches (2) and snapshots (3), in pieces of at most 4 MiB. A table with row ids:
-- large values would spoil the fan-out of one without.
CREATE TABLE chunk (
  run     INTEGER NOT NULL REFERENCES run,
  version INTEGER NOT NULL,
  kind    INTEGER NOT NULL,
  place   INTEGER NOT NULL,
  hash    INTEGER NOT NULL,            -- XXH3-64 of bytes
  bytes   BLOB    NOT NULL,
  PRIMARY KEY (run, version, kind, place)
) STRICT;

CREATE TABLE device (
  name                 TEXT PRIMARY KEY,
  certificate_serial   TEXT    NOT NULL,
  first_seen_unix_ms   INTEGER NOT NULL,
  last_seen_unix_ms    INTEGER NOT NULL,
  revoked              INTEGER NOT NULL,
  uplink_bytes_per_s   REAL,
  downlink_bytes_per_s REAL,
  samples_per_s        REAL,
  up_bytes             INTEGER NOT NULL,
  down_bytes           INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
  id           INTEGER PRIMARY KEY,
  wall_unix_ms INTEGER NOT NULL,
  actor        TEXT    NOT NULL,
  action       TEXT    NOT NULL,
  detail       TEXT    NOT NULL
) STRICT;
)sql";

// The tables stay. An older program would take the answered plans for open ones.
constexpr const char* kPlansBesideAnswers = "";

constexpr const char* kLateUploads = "ALTER TABLE round ADD COLUMN late_uploads INTEGER NOT NULL DEFAULT 0;";

// What the commits of a run that is over do not hold: its last bytes, and how many devices it knew.
constexpr const char* kEnds = R"sql(
ALTER TABLE run ADD COLUMN rest_up_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN rest_down_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN rest_up_value_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN rest_up_index_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN rest_down_value_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN rest_down_index_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN devices_known INTEGER NOT NULL DEFAULT 0;
)sql";

constexpr std::array kSteps = {
    MigrationStep{"the first tables", kFirstTables},
    MigrationStep{"a plan stays beside its answer until the next plans are issued", kPlansBesideAnswers},
    MigrationStep{"a round knows how many of its updates were late", kLateUploads},
    MigrationStep{"a run that is over knows its last bytes and its devices", kEnds},
};

// Written beside and renamed, so that a name stands for a whole copy. An older copy of the same schema version goes: it
// is from before a migration that did not happen.
Status back_up_old_schema(Connection& connection, std::uint32_t version) {
  const std::string path = fmt::format("{}.schema-{}.backup", connection.path(), version);
  const std::string partial = path + ".partial";
  std::error_code ignored;
  std::filesystem::remove(partial, ignored);
  if (Status copied = connection.copy_to(partial, kCopyApplicationId); !copied) {
    std::filesystem::remove(partial, ignored);  // it may be what fills the disk
    return fail(copied.error().within("while copying the database before its schema is changed"));
  }
  std::error_code error;
  std::filesystem::rename(partial, path, error);
  if (error) return fail(system_failure(error.value(), partial, "cannot be renamed"));
  GLEANER_TRY(sync_folder_of(path));
  log_info("{}: schema {} was copied to {} before it is changed", connection.path(), version, path);
  return {};
}

}  // namespace

std::span<const MigrationStep> migration_steps() { return kSteps; }

Result<SchemaState> read_schema(Connection& connection, std::span<const MigrationStep> steps) {
  GLEANER_ASSIGN(const auto application, connection.first<std::uint32_t>("PRAGMA application_id"));
  GLEANER_ASSIGN(const auto version, connection.first<std::uint32_t>("PRAGMA user_version"));
  GLEANER_ASSIGN(const auto objects, connection.first<std::uint32_t>("SELECT count(*) FROM sqlite_schema"));
  SchemaState state;
  state.version = version.value_or(0);
  state.is_copy = application == kCopyApplicationId;
  state.is_new = application == 0U && state.version == 0 && objects == 0U;
  if (!state.is_new && !state.is_copy && application != kApplicationId) {
    return fail(ErrorCode::bad_input,
                fmt::format("{}: a database of another program; name another file", connection.path()));
  }
  if (state.version > steps.size()) {
    return fail(ErrorCode::bad_input,
                fmt::format("{}: its schema is version {}, this program knows up to {}; use a newer program",
                            connection.path(), state.version, steps.size()));
  }
  return state;
}

Status migrate(Connection& connection, const SchemaState& state, std::span<const MigrationStep> steps) {
  if (state.version == steps.size()) return {};
  if (!state.is_new) GLEANER_TRY(back_up_old_schema(connection, state.version));
  GLEANER_ASSIGN(Transaction transaction, Transaction::begin(connection));
  for (std::size_t from = state.version; from < steps.size(); ++from) {
    if (const Status done = connection.script(steps[from].sql); !done) {
      return fail(done.error().within(fmt::format("while migrating to schema {} ({})", from + 1, steps[from].summary)));
    }
  }
  // A copy stays marked as one until it is given its new lineages.
  const std::uint32_t application = state.is_copy ? kCopyApplicationId : kApplicationId;
  GLEANER_TRY(connection.script(
      fmt::format("PRAGMA user_version = {}; PRAGMA application_id = {};", steps.size(), application)));
  GLEANER_TRY(transaction.commit());
  if (!state.is_new) log_info("{}: migrated from schema {} to {}", connection.path(), state.version, steps.size());
  return {};
}

}  // namespace gleaner
