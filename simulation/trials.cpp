#include "simulation/trials.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <vector>

#include "common/text.hpp"
#include "simulation/world/books.hpp"

namespace gleaner::simulation {
namespace {

// Gone with its content when the run is over.
class Scratch {
 public:
  Scratch() : path_((std::filesystem::temp_directory_path() / "gleaner-trial-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ec;
    if (!path_.empty()) std::filesystem::remove_all(path_, ec);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The longest that a round may take from the end of the one before, in a world with such faults: its own deadline,
// begun again after a death of the coordinator, while the network is cut and the disk is full.
double longest_round_s(const Experiment& e) {
  const double deadline_s = to_seconds(e.run.planning.deadline);
  const double outages_s = to_seconds(e.faults.delay_max) + to_seconds(e.faults.full_disk_max) +
                           2 * to_seconds(e.faults.network_cut_max) + 120.0;
  return 3 * deadline_s + 3 * outages_s;
}

Status check_times(const Experiment& e, const std::vector<RoundRecord>& records) {
  if (e.run.spec.reproducible || e.run.planning.deadline == Duration{}) return {};
  double before = 0.0;
  for (const RoundRecord& record : records) {
    if (record.virtual_s - before > longest_round_s(e)) {
      return fail(ErrorCode::fatal, fmt::format("round {} took {:.1f} s of virtual time, at most {:.1f} s are allowed",
                                                record.round, record.virtual_s - before, longest_round_s(e)));
    }
    before = record.virtual_s;
  }
  return {};
}

Status check_counts(Database& database, RunId run, const Books& books) {
  GLEANER_TRY(database.check());
  GLEANER_ASSIGN(const RunTotals totals, database.totals(run));
  GLEANER_ASSIGN(const auto rounds, database.newest_rounds(run, UINT32_MAX));
  std::uint64_t contributions = 0;
  for (const RoundRow& round : rounds) contributions += round.contributions;
  if (contributions != totals.uploads) {
    return fail(ErrorCode::fatal, fmt::format("{} contributions were summed, {} updates are recorded as included",
                                              contributions, totals.uploads));
  }
  if (books.applies() && books.included() != totals.uploads) {
    return fail(ErrorCode::fatal, fmt::format("{} updates are recorded as included, devices sent {} of them",
                                              totals.uploads, books.included()));
  }
  return {};
}

}  // namespace

Trials::Trials(Stage& stage, const Faults& faults) : stage_(stage), faults_(faults) {}

Result<std::uint64_t> Trials::run_checked(const Experiment& experiment) {
  const Scratch scratch;
  if (scratch.path().empty()) return fail(ErrorCode::fatal, "no folder can be made for a trial");
  Books books(experiment.run);
  std::vector<RoundRecord> records;
  Federation::Needs needs = stage_.needs(scratch.path());
  needs.experiment = &experiment;
  needs.ledger = &books;
  needs.on_round = [&](const RoundRecord& record) -> Status {
    records.push_back(record);
    return {};
  };
  GLEANER_ASSIGN(const auto federation, Federation::create(std::move(needs)));
  const std::atomic<bool> never = false;
  GLEANER_TRY(federation->run(never));
  Database& database = federation->database();
  for (std::uint32_t device = 0; device < experiment.population.devices; ++device) {
    GLEANER_ASSIGN(const auto state, federation->states().load(device));
    if (state == nullptr) continue;
    if (const Status sound = books.check(device, *state, database, federation->run_id()); !sound)
      return fail(sound.error());
  }
  GLEANER_TRY(check_counts(database, federation->run_id(), books));
  GLEANER_TRY(check_times(experiment, records));
  ++runs_;
  crashes_ += federation->crashes();
  rounds_ += records.size();
  for (const RoundRecord& record : records) {
    answers_ += record.uploads + record.skips;
    late_ += record.late;
    lapsed_ += record.lapsed;
  }
  return federation->status().row.model_hash;
}

Status Trials::run_calm() {
  Experiment experiment = stage_.experiment();
  experiment.faults = {};
  GLEANER_ASSIGN(calm_hash_, run_checked(experiment));
  runs_ = crashes_ = rounds_ = answers_ = late_ = lapsed_ = 0;
  return {};
}

Status Trials::run(std::uint64_t seed) {
  Experiment experiment = stage_.experiment();
  const bool reproducible = experiment.run.spec.reproducible;
  experiment.faults = faults_;
  experiment.faults.seed = seed;
  GLEANER_ASSIGN(const std::uint64_t model_hash, run_checked(experiment));
  if (reproducible && model_hash != calm_hash_) {
    return fail(ErrorCode::fatal, fmt::format("the run ends with model {}, without faults with {}", to_hex(model_hash),
                                              to_hex(calm_hash_)));
  }
  return {};
}

std::string Trials::report() const {
  return fmt::format(
      "{} runs under faults, all sound: {} rounds, {} deaths of devices and coordinators, {} answers, {} of them late, "
      "{} "
      "plans lapsed\n",
      runs_, rounds_, crashes_, answers_, late_, lapsed_);
}

}  // namespace gleaner::simulation
