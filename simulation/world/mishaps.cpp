#include "simulation/world/mishaps.hpp"

#include <algorithm>

namespace gleaner::simulation {

// Everything that writes may find no room; what reads goes through.
class BadWorld::FullDisk final : public Database {
 public:
  FullDisk(BadWorld& world, Database& behind) : world_(world), behind_(behind) {}

  Status create_run(const RunRow& row) override { return behind_.create_run(row); }
  Result<std::vector<RunRow>> runs() override { return behind_.runs(); }
  Result<RunRow> run(RunId run) override { return behind_.run(run); }
  Status set_run_state(RunId run, RunState state) override { return behind_.set_run_state(run, state); }
  Status end_run(RunId run, const RunEnd& end) override { return behind_.end_run(run, end); }
  Status set_divisor(RunId run, double divisor) override {
    return full() ? no_space() : behind_.set_divisor(run, divisor);
  }
  Status set_lineage(RunId run, Lineage lineage) override { return behind_.set_lineage(run, lineage); }
  Status issue_plans(RunId run, const std::vector<PlanRow>& plans) override {
    return full() ? no_space() : behind_.issue_plans(run, plans);
  }
  Result<std::vector<PlanRow>> open_plans(RunId run) override { return behind_.open_plans(run); }
  Result<std::optional<StoredOutcome>> outcome_of(RunId run, PlanId plan) override {
    return behind_.outcome_of(run, plan);
  }
  Result<std::vector<AnswerRow>> last_answers(RunId run) override { return behind_.last_answers(run); }
  Status commit(RunId run, const CommitRecord& record) override {
    return full() ? no_space() : behind_.commit(run, record);
  }
  Status record_evaluation(RunId run, Version version, double accuracy, double loss) override {
    return behind_.record_evaluation(run, version, accuracy, loss);
  }
  Status replay(RunId run, Version from, const std::function<Status(const CommitRecord&)>& visit) override {
    return behind_.replay(run, from, visit);
  }
  Result<std::vector<PatchRow>> patches(RunId run, Version after, Version up_to) override {
    return behind_.patches(run, after, up_to);
  }
  Result<std::vector<RoundRow>> newest_rounds(RunId run, std::uint32_t count) override {
    return behind_.newest_rounds(run, count);
  }
  Result<RunTotals> totals(RunId run) override { return behind_.totals(run); }
  Result<std::uint64_t> log_bytes_since_snapshot(RunId run) override { return behind_.log_bytes_since_snapshot(run); }
  Status begin_snapshot(RunId run, Version version, std::uint64_t total_bytes) override {
    return full() ? no_space() : behind_.begin_snapshot(run, version, total_bytes);
  }
  Status append_snapshot(RunId run, Version version, ByteView piece) override {
    return full() ? no_space() : behind_.append_snapshot(run, version, piece);
  }
  Status finish_snapshot(RunId run, Version version, std::uint32_t patches_kept) override {
    return behind_.finish_snapshot(run, version, patches_kept);
  }
  Result<std::optional<Snapshot>> newest_snapshot(RunId run) override { return behind_.newest_snapshot(run); }
  Status upsert_device(const DeviceRow& row) override { return behind_.upsert_device(row); }
  Status revoke_device(const DeviceName& name, Unseen unseen) override { return behind_.revoke_device(name, unseen); }
  Status allow_device(const DeviceName& name) override { return behind_.allow_device(name); }
  Result<std::vector<DeviceRow>> devices() override { return behind_.devices(); }
  Status audit(const std::string& actor, const std::string& action, const std::string& detail) override {
    return behind_.audit(actor, action, detail);
  }
  Result<std::vector<std::string>> newest_audit(std::uint32_t count) override { return behind_.newest_audit(count); }
  Status backup(const std::string& path) override { return behind_.backup(path); }
  Status check() override { return behind_.check(); }
  Status checkpoint() override { return behind_.checkpoint(); }

 private:
  bool full() { return world_.disk_is_full(); }
  static Status no_space() { return fail(ErrorCode::no_space, "the virtual disk is full"); }

  BadWorld& world_;
  Database& behind_;
};

BadWorld::BadWorld(const Faults& faults, std::uint64_t seed, const VirtualTime& time)
    : faults_(faults),
      seed_(faults.seed == 0 ? seed : faults.seed),
      time_(time),
      random_(seed_, Purpose::device_model) {}

BadWorld::~BadWorld() = default;

void BadWorld::restart(std::uint64_t draw) {
  // Far from the streams that devices draw from.
  random_ = Random(seed_, Purpose::device_model, draw, UINT32_MAX);
  full_until_ = {};
}

Mishaps::Death BadWorld::dies(std::uint32_t) {
  if (!happens(faults_.device_crashes)) return Death::none;
  return random_.below(2) == 0 ? Death::before_it_is_stored : Death::after_it_is_stored;
}

bool BadWorld::state_disk_is_full(std::uint32_t) { return happens(faults_.full_disks); }

bool BadWorld::disk_is_full() {
  if (time_.now() < full_until_) return true;
  if (!happens(faults_.full_disks)) return false;
  full_until_ = time_.now() + from_seconds(to_seconds(faults_.full_disk_max) * random_.uniform());
  return true;
}

BadWorld::RoundFate BadWorld::round_begins() {
  RoundFate fate;
  // At some moment of the next twenty seconds: rounds take that long, or the next one dies in this one's place.
  if (happens(faults_.coordinator_crashes)) fate.coordinator_dies_after = from_seconds(20.0 * random_.uniform());
  if (happens(faults_.network_cuts)) {
    fate.network_cut = from_seconds(to_seconds(faults_.network_cut_max) * random_.uniform());
    fate.cut_draw = random_.bits64();
  }
  return fate;
}

Database* BadWorld::in_front_of(Database* database) {
  full_disk_ = std::make_unique<FullDisk>(*this, *database);
  return full_disk_.get();
}

}  // namespace gleaner::simulation
