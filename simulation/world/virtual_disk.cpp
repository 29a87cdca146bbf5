#include "simulation/world/virtual_disk.hpp"

#include <utility>

namespace gleaner::simulation {
namespace {

// Everything that writes may find no room; what reads goes through.
class VirtualDisk final : public Database {
 public:
  VirtualDisk(Database& behind, DiskState state) : behind_(behind), state_(std::move(state)) {}

  Status create_run(const RunRow& row) override { return behind_.create_run(row); }
  Result<std::vector<RunRow>> runs() override { return behind_.runs(); }
  Result<RunRow> run(RunId run) override { return behind_.run(run); }
  Status set_run_state(RunId run, RunState state) override { return behind_.set_run_state(run, state); }
  Status end_run(RunId run, const RunEnd& end) override { return told(behind_.end_run(run, end)); }
  Status set_divisor(RunId run, double divisor) override {
    return write([&] { return behind_.set_divisor(run, divisor); });
  }
  Status set_lineage(RunId run, Lineage lineage) override { return behind_.set_lineage(run, lineage); }
  Status issue_plans(RunId run, const std::vector<PlanRow>& plans) override {
    return write([&] { return behind_.issue_plans(run, plans); });
  }
  Result<std::vector<PlanRow>> open_plans(RunId run) override { return behind_.open_plans(run); }
  Result<std::optional<StoredOutcome>> outcome_of(RunId run, PlanId plan) override {
    return behind_.outcome_of(run, plan);
  }
  Result<std::vector<AnswerRow>> last_answers(RunId run) override { return behind_.last_answers(run); }
  Status commit(RunId run, const CommitRecord& record) override {
    return write([&] { return behind_.commit(run, record); });
  }
  Status record_evaluation(RunId run, Version version, double accuracy, double loss) override {
    return told(behind_.record_evaluation(run, version, accuracy, loss));
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
    return write([&] { return behind_.begin_snapshot(run, version, total_bytes); });
  }
  Status append_snapshot(RunId run, Version version, ByteView piece) override {
    return write([&] { return behind_.append_snapshot(run, version, piece); });
  }
  Status finish_snapshot(RunId run, Version version, std::uint32_t patches_kept) override {
    return told(behind_.finish_snapshot(run, version, patches_kept));
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
  template <class Write>
  Status write(const Write& act) {
    return state_.is_full && state_.is_full() ? fail(ErrorCode::no_space, "the virtual disk is full") : told(act());
  }
  Status told(Status done) {
    if (!done && done.error().code() == ErrorCode::no_space) state_.on_really_full(done.error());
    return done;
  }

  Database& behind_;
  DiskState state_;
};

}  // namespace

std::unique_ptr<Database> in_front_of(Database& behind, DiskState state) {
  return std::make_unique<VirtualDisk>(behind, std::move(state));
}

}  // namespace gleaner::simulation
