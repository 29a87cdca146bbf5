#include "benchmarks/storage_commit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <vector>

#include "common/hash.hpp"
#include "storage/sqlite_database.hpp"

namespace gleaner {
namespace {

constexpr RunId kRun{1};

class Stopwatch {
 public:
  double elapsed_ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

Spread spread_of(std::vector<double> times_ms) {
  std::ranges::sort(times_ms);
  const auto at = [&](std::size_t percent) { return times_ms[(times_ms.size() - 1) * percent / 100]; };
  return {.median_ms = at(50), .p90_ms = at(90)};
}

Bytes incompressible(std::uint64_t seed, std::size_t size) {
  Bytes bytes;
  bytes.reserve(size + sizeof(seed));
  ByteWriter writer(bytes);
  for (std::uint64_t i = 0; bytes.size() < size; ++i) writer.put(mix64(mix64(seed) + i));
  bytes.resize(size);
  return bytes;
}

std::vector<ByteView> pieces_of(ByteView bytes) {
  std::vector<ByteView> pieces;
  for (; !bytes.empty(); bytes = bytes.subspan(pieces.back().size())) {
    pieces.push_back(bytes.first(std::min(bytes.size(), kChunkBytesMax)));
  }
  return pieces;
}

// SQLite with nothing around it but the pragmas.
class PlainTable {
 public:
  static Result<PlainTable> make(const std::string& path) {
    GLEANER_ASSIGN(auto connection, Connection::open(path, Connection::Mode::write, {}));
    GLEANER_TRY(connection->script("CREATE TABLE chunk (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL) STRICT;"));
    return PlainTable(std::move(connection));
  }
  Result<double> insert(const std::vector<ByteView>& chunks) {
    const Stopwatch watch;
    GLEANER_ASSIGN(Transaction transaction, Transaction::begin(*connection_));
    for (const ByteView chunk : chunks) {
      GLEANER_TRY(connection_->execute("INSERT INTO chunk (bytes) VALUES (?)", chunk));
    }
    GLEANER_TRY(transaction.commit());
    return watch.elapsed_ms();
  }
  Result<double> insert_each(const std::vector<ByteView>& chunks) {
    double sum_ms = 0.0;
    for (const ByteView chunk : chunks) {
      GLEANER_ASSIGN(const double time_ms, insert({chunk}));
      sum_ms += time_ms;
    }
    return sum_ms;
  }
  // Keeps the newest rows, so that the table settles to a size as the log does; then folds the log back, unmeasured.
  Status settle(std::size_t rows_kept) {
    GLEANER_TRY(connection_->execute("DELETE FROM chunk WHERE id <= (SELECT max(id) FROM chunk) - ?", rows_kept));
    return connection_->checkpoint();
  }

 private:
  explicit PlainTable(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
  std::unique_ptr<Connection> connection_;
};

CommitRecord make_record(std::uint32_t version, const StorageLoad& load) {
  CommitRecord record{.version = {version},
                      .round = version,
                      .aggregate = incompressible(2 * std::uint64_t{version}, load.aggregate_bytes),
                      .patch = incompressible(2 * std::uint64_t{version} + 1, load.patch_bytes),
                      .patch_clip = 0.5F,
                      .model_hash = mix64(version)};
  for (std::uint32_t i = 0; i < load.answers; ++i) {
    const std::uint64_t plan = std::uint64_t{version} * load.answers + i;
    record.answers.push_back({.plan = {plan},
                              .device = {fmt::format("device-{:05}", i * 37)},
                              .outcome = Outcome::included,
                              .digest = {mix64(plan)},
                              .samples = 600,
                              .compute_ms = 1'500,
                              .payload_bytes = 16'000,
                              .left = 0.25F,
                              .right = 0.5F,
                              .loss = 0.75F});
  }
  return record;
}

Status issue_plans_of(Database& database, const CommitRecord& record) {
  std::vector<PlanRow> plans;
  for (const AnswerRow& answer : record.answers) {
    plans.push_back({.id = answer.plan, .device = answer.device, .round = record.round});
  }
  return database.issue_plans(kRun, plans);
}

Status measure_commits(Database& database, PlainTable& plain, const StorageLoad& load, StorageFigures& figures) {
  std::vector<double> ours;
  std::vector<double> theirs;
  for (std::uint32_t version = 1; version <= load.commits; ++version) {
    const CommitRecord record = make_record(version, load);
    GLEANER_TRY(issue_plans_of(database, record));
    GLEANER_TRY(database.checkpoint());
    const Stopwatch watch;
    GLEANER_TRY(database.commit(kRun, record));
    ours.push_back(watch.elapsed_ms());
    std::vector<ByteView> chunks = pieces_of(record.aggregate);
    for (const ByteView piece : pieces_of(record.patch)) chunks.push_back(piece);
    GLEANER_TRY(plain.settle(2 * load.commits));
    GLEANER_ASSIGN(const double plain_ms, plain.insert(chunks));
    theirs.push_back(plain_ms);
  }
  figures.commit = spread_of(ours);
  figures.plain_commit = spread_of(theirs);
  return {};
}

Status measure_snapshots(Database& database, PlainTable& plain, const StorageLoad& load, StorageFigures& figures) {
  std::vector<double> ours;
  std::vector<double> at_once;
  std::vector<double> one_by_one;
  for (std::uint32_t i = 0; i < load.snapshots; ++i) {
    const Version version{load.commits - load.snapshots + 1 + i};
    const Bytes bytes = incompressible(1'000'000 + std::uint64_t{i}, load.snapshot_bytes);
    const std::vector<ByteView> pieces = pieces_of(bytes);
    GLEANER_TRY(database.checkpoint());
    const Stopwatch watch;
    GLEANER_TRY(database.begin_snapshot(kRun, version, bytes.size()));
    for (const ByteView piece : pieces) GLEANER_TRY(database.append_snapshot(kRun, version, piece));
    GLEANER_TRY(database.finish_snapshot(kRun, version, 50));
    ours.push_back(watch.elapsed_ms());
    GLEANER_TRY(plain.settle(2 * pieces.size()));
    GLEANER_ASSIGN(const double at_once_ms, plain.insert(pieces));
    at_once.push_back(at_once_ms);
    GLEANER_TRY(plain.settle(2 * pieces.size()));
    GLEANER_ASSIGN(const double one_by_one_ms, plain.insert_each(pieces));
    one_by_one.push_back(one_by_one_ms);
  }
  figures.snapshot = spread_of(ours);
  figures.plain_snapshot = spread_of(at_once);
  figures.plain_pieces = spread_of(one_by_one);
  return {};
}

Status measure_reading(Database& database, const StorageLoad& load, StorageFigures& figures) {
  std::vector<double> snapshots;
  std::vector<double> records;
  for (std::uint32_t i = 0; i < load.snapshots; ++i) {
    const Stopwatch watch;
    GLEANER_ASSIGN(const auto snapshot, database.newest_snapshot(kRun));
    snapshots.push_back(watch.elapsed_ms());
    if (!snapshot || snapshot->bytes.size() != load.snapshot_bytes) {
      return fail(ErrorCode::corrupt, "the newest snapshot is not what was written");
    }
    const Stopwatch replaying;
    GLEANER_TRY(database.replay(kRun, {load.commits - 1}, [](const CommitRecord&) -> Status { return {}; }));
    records.push_back(replaying.elapsed_ms());
  }
  figures.snapshot_read = spread_of(snapshots);
  figures.replayed_record = spread_of(records);
  return {};
}

}  // namespace

Result<StorageFigures> measure_storage(const std::string& folder, const StorageLoad& load) {
  if (load.snapshots == 0 || load.commits < load.snapshots) {
    return fail(ErrorCode::bad_input, "measuring storage needs a snapshot, and a commit for each of them");
  }
  const std::filesystem::path files = std::filesystem::path(folder) / "storage-commit";
  std::filesystem::remove_all(files);
  std::filesystem::create_directory(files);
  StorageFigures figures;
  {
    const std::string path = (files / "log.db").string();
    GLEANER_ASSIGN(const auto database, Database::open(path, Database::Access::serve));
    GLEANER_TRY(database->create_run({.id = kRun, .name = "measured"}));
    GLEANER_ASSIGN(PlainTable plain_commits, PlainTable::make((files / "plain-commits.db").string()));
    GLEANER_ASSIGN(PlainTable plain_snapshots, PlainTable::make((files / "plain-snapshots.db").string()));
    GLEANER_TRY(measure_commits(*database, plain_commits, load, figures));
    GLEANER_TRY(measure_snapshots(*database, plain_snapshots, load, figures));
    GLEANER_TRY(measure_reading(*database, load, figures));
    GLEANER_TRY(database->checkpoint());
    figures.file_bytes = std::filesystem::file_size(path);
  }
  std::filesystem::remove_all(files);
  return figures;
}

}  // namespace gleaner
