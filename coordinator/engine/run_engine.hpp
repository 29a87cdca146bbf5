#pragma once
// Carries out what the round machine of one run asks for: stores, sends, folds, steps, evaluates. Public members are
// for the loop thread only. No Asio, no sockets: the service and the simulator give executors and an outbox.

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "aggregation/catch_up.hpp"
#include "compression/upload_rule.hpp"
#include "coordinator/engine/executors.hpp"
#include "coordinator/engine/fold_queue.hpp"
#include "coordinator/engine/model_owner.hpp"
#include "coordinator/engine/outbox.hpp"
#include "coordinator/round/machine.hpp"
#include "coordinator/run_settings.hpp"
#include "storage/database.hpp"
#include "training/dataset.hpp"
#include "training/trainer.hpp"

namespace gleaner {

// What people see of a run; a copy, safe to hand to another thread.
struct RunStatus {
  RunRow row;
  std::string recipe;
  std::string phase;
  std::string waiting_for;
  std::string suspension;  // why nothing can be stored; empty: it can
  std::uint32_t round = 0;
  std::uint32_t rounds = 0;
  std::uint32_t devices_connected = 0;
  std::uint32_t devices_known = 0;
  std::optional<double> accuracy;
  std::optional<double> loss;
  Version evaluated;
  round::Counters counters;
  Traffic traffic;                   // committed and not yet committed, over all starts
  std::uint64_t dense_up_bytes = 0;  // what the same plans would cost dense, exact arithmetic: 4 bytes a parameter
  std::uint64_t dense_down_bytes = 0;
};

class RunEngine : public std::enable_shared_from_this<RunEngine> {
 public:
  struct Needs {
    Database* database = nullptr;  // used in storage jobs only, and by make()
    const KernelTable* kernels = nullptr;
    std::shared_ptr<const Dataset> evaluation;  // null: no evaluation
    Outbox* outbox = nullptr;
    Executors executors;
    std::function<void()> on_progress;  // loop; after anything that people would see
    std::function<void()> on_finished;  // loop; the last evaluation is stored
    std::function<void(std::string)>
        on_lineage_change;                // loop; stop this engine, give the run a new lineage, start again
    std::function<void(Error)> on_fatal;  // loop; the process must end and recover
    bool lineage_may_change = true;       // false: a device that claims a later version is not believed
  };

  // Recovers the run: newest snapshot, then the records after it. Blocking; before the threads use the database.
  static Result<std::shared_ptr<RunEngine>> make(const RunRow& row, RunSettings settings, Needs needs);

  void start();
  // After stop() no callback comes any more; jobs in flight end without effect.
  void stop();

  const RunSettings& settings() const { return settings_; }
  Lineage lineage() const { return row_.lineage; }
  RunStatus status() const;
  // What was counted and stands in no record yet; from here on it is the caller's to store.
  Traffic take_traffic();
  const std::map<RefusalCode, std::uint64_t>& refusals() const { return refusals_; }  // since the start
  std::map<DeviceName, round::DeviceView> devices() const { return machine_->devices(); }

  // From the network. accept: what the device says it holds.
  void device_accepted(const DeviceName& device, const Accept& accept);
  // Rates that were measured before this process or this run; 0 = not measured.
  void device_measured(const DeviceName& device, const DeviceRow& rates);
  void download_measured(const DeviceName& device, std::uint64_t bytes, Duration transfer);
  std::optional<DeviceProfile> profile_of(const DeviceName& device) const;
  void device_left(const DeviceName& device);
  // payload: null when the plan was not open any more as the first bytes came; the digest is enough to answer then.
  void update_arrived(const DeviceName& device, const Update& meta, std::shared_ptr<const Bytes> payload,
                      Duration transfer);
  void update_refused(const DeviceName& device, PlanId plan, RefusalCode code, const std::string& detail);
  void skip_arrived(const DeviceName& device, const Skip& skip);
  void timer_fired(round::Timer timer);
  void pause();
  void resume();
  // The newest model, copied on the compute thread, then done(parameters, version, hash) on the loop.
  void copy_model(std::function<void(std::vector<float>, Version, std::uint64_t)> done);
  // The most payload bytes an update of this device to this plan may have; 0 when the device has no such open plan.
  std::uint64_t payload_bytes_max_of(const DeviceName& device, PlanId plan) const;

 private:
  RunEngine(const RunRow& row, RunSettings settings, Needs needs);
  Status recover();
  Status load_rounds();

  void handle(const round::Event& event);
  void perform_all(std::vector<round::Action> actions);
  void perform(round::StorePlans action);
  void perform(const round::BeginRound& action);
  void perform(const round::SendPlan& action);
  void perform(const round::SendSettle& action);
  void perform(const round::SendRefused& action);
  void perform(const round::Fold& action);
  void perform(const round::DropPayload& action);
  void perform(const round::Step& action);
  void perform(round::Commit action);
  void perform(const round::Evaluate& action);
  void perform(const round::StartTimer& action);
  void perform(const round::StopTimer& action);
  void perform(const round::ChangeLineage& action);
  void perform(const round::Note& action);
  void perform(const round::Finish& action);

  // What leads a device to the open round's base, made once for all that hold the same version.
  struct Sync {
    SyncKind kind = SyncKind::none;
    Version from;
    std::shared_ptr<const Bytes> bytes;
    std::uint64_t value_bytes = 0;  // of them; patches know their own
  };
  struct SyncEntry {
    bool ready = false;
    Sync sync;
    struct Waiting {
      round::SendPlan plan;
      std::uint64_t turn = 0;
    };
    std::vector<Waiting> waiting;
  };
  static constexpr std::uint64_t kNoModel = ~0ULL;
  void send_plan_with(const round::SendPlan& action, const Sync& sync);
  void choose_sync(std::uint64_t key, Version held, bool has_model);
  std::shared_ptr<const Bytes> patches_since(Version held) const;
  void count_sync(const Sync& sync);
  void folded(PlanId plan, const Admitted<PayloadBytes>& result);
  void committed(const CommitRecord& record, std::optional<Error> error);
  void maybe_snapshot();
  void begin_snapshot(Version version, std::shared_ptr<const Bytes> bytes);
  void snapshot_ended(Version version, const Status& status);
  void write_snapshot(Version version, std::shared_ptr<const Bytes> bytes, std::size_t offset);
  void report_training(const DeviceName& device, std::uint32_t samples, std::uint32_t compute_ms);
  void report_transfer(const DeviceName& device, std::uint64_t bytes, Duration transfer);
  void evaluated(Version version, std::optional<Evaluation> result);
  void finish_when_evaluated();
  std::uint64_t turn_of(const DeviceName& device) const;

  // A job's way back to the loop that does nothing once the engine was stopped.
  void back(Job job);

  struct HeldPayload {
    DeviceName device;
    std::shared_ptr<const Bytes> bytes;
  };

  RunRow row_;
  const RunSettings settings_;
  Needs needs_;
  bool alive_ = true;
  std::unique_ptr<Planner> planner_;
  std::unique_ptr<UploadRule> rule_;
  std::unique_ptr<round::Machine> machine_;
  std::shared_ptr<ModelOwner> model_;  // compute jobs only
  const std::shared_ptr<FoldQueue> folds_ = std::make_shared<FoldQueue>();

  std::unordered_map<DeviceName, std::uint64_t> turns_;  // how often a device that accepted came and left
  std::unordered_map<PlanId, HeldPayload> payloads_;
  std::unordered_map<PlanId, PlanRow> plan_rows_;  // open ones, for size limits
  struct KnownPatch {
    PatchRow row;
    PayloadBytes split;
  };
  std::deque<KnownPatch> patches_;  // the newest, without gaps, up to the newest version
  std::unordered_map<Version, std::uint64_t> hashes_;
  std::map<std::uint64_t, SyncEntry> syncs_;  // by version held
  Version sync_base_;
  PayloadBytes patch_split_;              // of the step being committed
  std::shared_ptr<CommitRecord> record_;  // the one being committed; untouched while storage has it
  Traffic committed_traffic_;
  Traffic open_traffic_;  // values and indices since the last record
  SocketBytes counted_;   // of the sockets, already in a record
  std::optional<double> accuracy_;
  std::optional<double> loss_;
  Version evaluated_;
  std::map<RefusalCode, std::uint64_t> refusals_;
  std::uint64_t plans_answered_ = 0;  // included or skipped
  std::uint32_t evaluations_open_ = 0;
  bool finishing_ = false;
  bool snapshotting_ = false;
};

}  // namespace gleaner
