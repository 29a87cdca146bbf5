#include <fmt/format.h>

#include <algorithm>

#include "benchmarks/service/fleet.hpp"
#include "benchmarks/service/plain_peer.hpp"
#include "benchmarks/service/rows.hpp"
#include "benchmarks/storage_commit.hpp"
#include "storage/database.hpp"

namespace gleaner::bench {
namespace {

constexpr std::uint32_t kDevices = 100;
constexpr std::uint32_t kHiddenUnits = 1258;
constexpr std::uint32_t kDimension = 784 * kHiddenUnits + kHiddenUnits + kHiddenUnits * 10 + 10;
constexpr std::uint32_t kEntries = kDimension / 100;
constexpr std::uint32_t kPlanBytes = 10'150;  // a plan with a patch of 0.5 %, f16
constexpr std::uint32_t kBlocks = 3;
constexpr std::uint32_t kRoundsOfBlock = 9;
constexpr std::uint32_t kProbedRounds = 12;
constexpr Duration kProbeOfRound = std::chrono::milliseconds(400);
constexpr Duration kTimeout = std::chrono::seconds(60);

std::string run_file() {
  return fmt::format(
      "[run]\nname = \"round\"\nrecipe = \"topk\"\nrounds = 1000000\nreproducible = true\n"
      "[model]\nname = \"mlp\"\nhidden_units = {}\n[data]\nname = \"fashion-mnist\"\n"
      "[cohort]\nsize = {}\nmin_devices = {}\nplanner = \"uniform\"\n",
      kHiddenUnits, kDevices, kDevices);
}

struct Stored {  // of the measured rounds
  StorageLoad load;
  double fixed_bytes = 0.0;  // a device and round, both ways
  double up_bytes = 0.0;     // of it
  double duration_ms = 0.0;  // plans stored to step made, as the log has it
};

// Reads the log of a coordinator that has ended. The first rounds brought joins, the last ones the prober.
Result<Stored> read_log(const std::string& path, std::uint32_t first_round, std::uint32_t last_round) {
  GLEANER_ASSIGN(const auto database, Database::open(path, Database::Access::inspect));
  GLEANER_ASSIGN(const auto runs, database->runs());
  if (runs.size() != 1) return fail(ErrorCode::fatal, "the log has another number of runs than one");
  GLEANER_ASSIGN(const auto rounds, database->newest_rounds(runs[0].id, runs[0].rounds_done));
  Stored stored;
  std::vector<double> durations_ms;
  double fixed = 0.0;
  double fixed_up = 0.0;
  for (const RoundRow& row : rounds) {
    if (row.round < first_round || row.round > last_round) continue;
    const Traffic& t = row.traffic;
    if (t.up_value_bytes == 0) return fail(ErrorCode::fatal, "the log does not say what the values of uploads took");
    const auto up = static_cast<double>(t.up_bytes) - static_cast<double>(t.up_value_bytes + t.up_index_bytes);
    const auto down = static_cast<double>(t.down_bytes) - static_cast<double>(t.down_value_bytes + t.down_index_bytes);
    fixed_up += up;
    fixed += up + down;
    durations_ms.push_back(row.duration_ms);
  }
  const double shares = static_cast<double>(durations_ms.size()) * kDevices;
  stored.fixed_bytes = fixed / shares;
  stored.up_bytes = fixed_up / shares;
  stored.duration_ms = median_of(durations_ms);
  // The newest record is there whole: only a snapshot after it would drop its aggregate.
  GLEANER_TRY(database->replay(runs[0].id, {runs[0].version.value - 1}, [&](const CommitRecord& record) -> Status {
    stored.load.aggregate_bytes = record.aggregate.size();
    stored.load.patch_bytes = record.patch.size();
    return {};
  }));
  stored.load.answers = kDevices;
  return stored;
}

Status add_storage_rows(const Bed& bed, const StorageLoad& load, Rows& rows) {
  GLEANER_ASSIGN(const StorageFigures figures, measure_storage(bed.at(""), load));
  rows.push_back({.name = "commit",
                  .text = fmt::format("commit of a round's record of {:.1f} MB, of SQLite's own time",
                                      static_cast<double>(load.aggregate_bytes + load.patch_bytes) / 1e6),
                  .unit = "times",
                  .value = figures.commit.median_ms / figures.plain_commit.median_ms,
                  .target = 1.3,
                  .references = {{"ms", figures.commit.median_ms}, {"SQLite ms", figures.plain_commit.median_ms}},
                  .note = {}});
  rows.push_back({.name = "snapshot",
                  .text = fmt::format("snapshot of {:.0f} MB, of SQLite's own time", load.snapshot_bytes / 1e6),
                  .unit = "times",
                  .value = figures.snapshot.median_ms / figures.plain_snapshot.median_ms,
                  .target = 1.5,
                  .references = {{"ms", figures.snapshot.median_ms}, {"SQLite ms", figures.plain_snapshot.median_ms}},
                  .note = {}});
  return {};
}

struct Probed {
  double during_ms = 0.0;  // the longest echo while storage wrote
  double before_ms = 0.0;  // while nothing happened
  std::uint32_t snapshots = 0;
};

// After each round the devices keep their answers back: what the coordinator then does is to write.
Result<Probed> probe_while_writing(const Bed& bed, const Coordinator& coordinator, Fleet& fleet) {
  GLEANER_ASSIGN(const auto prober, Prober::join(bed, coordinator.port(), kDevices));
  Probed probed;
  GLEANER_ASSIGN(const auto idle_ms, prober->probe(2 * kProbeOfRound));
  probed.before_ms = std::ranges::max(idle_ms);
  const std::uint32_t written_before = coordinator.snapshots_written();
  for (std::uint32_t i = 0; i < kProbedRounds; ++i) {
    GLEANER_TRY(fleet.run_rounds(1, kTimeout));
    GLEANER_ASSIGN(const auto times_ms, prober->probe(kProbeOfRound));
    probed.during_ms = std::max(probed.during_ms, std::ranges::max(times_ms));
  }
  probed.snapshots = coordinator.snapshots_written() - written_before;
  if (probed.snapshots == 0) return fail(ErrorCode::fatal, "no snapshot was written while the echoes were measured");
  return probed;
}

}  // namespace

Status measure_rounds(const Bed& bed, Rows& rows) {
  GLEANER_ASSIGN(Coordinator coordinator, Coordinator::start(bed, "round"));
  FleetLoad load{.first_device = 0, .devices = kDevices, .payloads = {}};
  for (std::uint32_t i = 0; i < kDevices; ++i) load.payloads.push_back(random_payload(i + 1, kDimension, kEntries));
  const auto payload_bytes = static_cast<std::uint32_t>(load.payloads[0].bytes.size());
  GLEANER_ASSIGN(auto fleet, Fleet::make(bed, coordinator.port(), std::move(load)));
  GLEANER_ASSIGN(const auto plain,
                 PlainFleet::make(bed, {.links = kDevices, .plan_bytes = kPlanBytes, .answer_bytes = payload_bytes}));
  GLEANER_TRY(plain->connect());
  GLEANER_TRY(coordinator.start_run(run_file()));
  GLEANER_TRY(fleet->connect(kDevices, kTimeout));
  GLEANER_TRY(fleet->run_rounds(2, kTimeout));  // joins
  std::vector<double> times_ms;
  std::vector<double> floor_ms;
  for (std::uint32_t block = 0; block < kBlocks; ++block) {
    GLEANER_ASSIGN(const auto ours, fleet->run_rounds(kRoundsOfBlock, kTimeout));
    times_ms.insert(times_ms.end(), ours.begin(), ours.end());
    GLEANER_ASSIGN(const auto theirs, plain->run_rounds(kRoundsOfBlock));
    floor_ms.insert(floor_ms.end(), theirs.begin(), theirs.end());
  }
  GLEANER_ASSIGN(const Probed probed, probe_while_writing(bed, coordinator, *fleet));
  if (fleet->refusals() > 0) return fail(ErrorCode::fatal, "updates of the replayed devices were refused");
  fleet.reset();
  const std::string database = coordinator.database();
  GLEANER_TRY(coordinator.stop());
  constexpr std::uint32_t kFirstMeasured = 5;  // after the rounds of joins
  GLEANER_ASSIGN(const Stored stored, read_log(database, kFirstMeasured, kBlocks * kRoundsOfBlock));

  rows.push_back({.name = "round",
                  .text = fmt::format("round of {} devices, {} parameters, {} bytes each: plan to plan, commit and all",
                                      kDevices, kDimension, payload_bytes),
                  .unit = "ms",
                  .value = median_of(times_ms),
                  .target = 100.0,
                  .references = {{"the same bytes over plain TLS", median_of(floor_ms)},
                                 {"without the commit", stored.duration_ms}},
                  .note = {}});
  rows.push_back({.name = "fixed_bytes",
                  .text = "bytes of a device and round beside values and indices, both ways",
                  .unit = "B",
                  .value = stored.fixed_bytes,
                  .target = 250.0,
                  .references = {{"up", stored.up_bytes}, {"down", stored.fixed_bytes - stored.up_bytes}},
                  .note = {}});
  rows.push_back({.name = "echo_while_writing",
                  .text = "longest heartbeat echo while records and snapshots are written",
                  .unit = "ms",
                  .value = probed.during_ms,
                  .target = 50.0,
                  .references = {{"longest while nothing happens", probed.before_ms}},
                  .note = fmt::format("{} snapshots", probed.snapshots)});
  return add_storage_rows(bed, stored.load, rows);
}

}  // namespace gleaner::bench
