// Commits for ever and reports on standard output what is on disk, one line of "commit N" or "snapshot N" each, until
// it is killed: crash_writer PATH SEED
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "common/random.hpp"
#include "tests/storage/support.hpp"

namespace gleaner::test {
namespace {

void report(std::string_view what, std::uint32_t version) {
  const std::string line = fmt::format("{} {}\n", what, version);
  if (::write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::exit(3);
}

Status commit_next(Database& database, std::uint32_t version, Random& random) {
  // The plan of a round has the number of its version, so that a test can ask for its outcome.
  if (database.run(kRun)->next_plan.value <= version) GLEANER_TRY(database.issue_plans(kRun, {plan_row(version)}));
  CommitRecord record = record_of(version, 1'000 + random.below(600'000));
  record.answers = {answer_row(version)};
  GLEANER_TRY(database.commit(kRun, record));
  report("commit", version);
  return {};
}

Status run_for_ever(const std::string& path, std::uint64_t seed) {
  // A small bound, so that kills also hit the folding of the write-ahead log.
  GLEANER_ASSIGN(const auto database, SqliteDatabase::open(path, Database::Access::serve, {.wal_bytes_max = 3U << 20}));
  if (!database->run(kRun)) GLEANER_TRY(database->create_run(run_row()));
  Random random(seed, Purpose::test);
  std::uint32_t version = database->run(kRun)->version.value;
  for (;;) {
    GLEANER_TRY(commit_next(*database, ++version, random));
    if (random.below(4) != 0) continue;
    const std::uint32_t base = version;
    const Bytes bytes = snapshot_of(base, 200'000 + random.below(1'500'000));
    GLEANER_ASSIGN(const auto newest, database->newest_snapshot(kRun));
    if (newest && newest->version.value == base) continue;
    GLEANER_TRY(database->begin_snapshot(kRun, {base}, bytes.size()));
    for (ByteView rest = bytes; !rest.empty();) {
      const ByteView piece = rest.first(std::min<std::size_t>(rest.size(), 400'000));
      GLEANER_TRY(database->append_snapshot(kRun, {base}, piece));
      rest = rest.subspan(piece.size());
      if (random.below(2) == 0) GLEANER_TRY(commit_next(*database, ++version, random));
    }
    GLEANER_TRY(database->finish_snapshot(kRun, {base}, 3));
    report("snapshot", base);
    if (random.below(3) == 0) GLEANER_TRY(database->checkpoint());
  }
}

}  // namespace
}  // namespace gleaner::test

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const gleaner::Status status = gleaner::test::run_for_ever(arguments[1], std::strtoull(arguments[2], nullptr, 10));
  fmt::print(stderr, "{}\n", status.error().message());
  return 1;
}
