#include "simulation/world/job.hpp"

#include <utility>

namespace gleaner::simulation {
namespace {

// A device's clock while it works: the work begins when it is first asked, and has ended ever after.
class WorkClock final : public Clock {
 public:
  WorkClock(Instant began, Duration takes) : began_(began), takes_(takes) {}
  Instant now() const override { return std::exchange(begun_, true) ? began_ + takes_ : began_; }
  std::int64_t wall_unix_ms() const override { return 0; }

 private:
  Instant began_;
  Duration takes_;
  mutable bool begun_ = false;
};

// A device's disk for the length of one job.
class JobStore final : public StateStore {
 public:
  JobStore(std::shared_ptr<const Bytes> state, bool is_full) : state_(std::move(state)), is_full_(is_full) {}

  Result<std::shared_ptr<const Bytes>> load(RunId) override { return saved_ ? saved_ : state_; }
  Status save(RunId, Bytes state) override {
    if (is_full_) return fail(ErrorCode::no_space, "the device's disk is full");
    saved_ = std::make_shared<const Bytes>(std::move(state));
    return {};
  }
  Status prune(RunId, std::size_t) override { return {}; }
  std::shared_ptr<const Bytes> take_saved() { return std::move(saved_); }

 private:
  std::shared_ptr<const Bytes> state_;
  std::shared_ptr<const Bytes> saved_;
  bool is_full_;
};

// What a device finds around itself for the length of a job.
struct Surroundings {
  Surroundings(const JobNeeds& all, const JobRequest& asked)
      : needs(all),
        request(asked),
        store(asked.state, asked.disk_is_full),
        clock(asked.began, asked.takes),
        task{.plan = asked.plan, .sync = asked.sync ? *asked.sync : Bytes{}} {}

  // Null: the reply says why. Without a scratch the device has memory of its own.
  std::unique_ptr<DeviceRun> open(WorkerScratch* scratch) {
    DeviceRun::Needs device{.samples = needs.data->samples_of(request.device),
                            .store = &store,
                            .kernels = needs.kernels,
                            .clock = &clock,
                            .name = needs.names->name_of(request.device),
                            .first_model = needs.first_model};
    if (scratch != nullptr) {
      device.network = &scratch->network_for(needs.model);
      device.scratch = &scratch->local;
    }
    if (request.wants_update) {
      device.on_update = [this](std::span<const float> update) { reply.update.assign(update.begin(), update.end()); };
    }
    auto run = DeviceRun::open(needs.spec, needs.lineage, std::move(device));
    if (!run) {
      reply.error = run.error();
      return nullptr;
    }
    for (const Settled& settled : request.settled) (*run)->settle(settled.plan, settled.outcome);
    return std::move(*run);
  }

  JobReply& done(session::Executed executed) {
    reply.done = std::move(executed);
    reply.saved = store.take_saved();
    return reply;
  }

  const JobNeeds& needs;
  const JobRequest& request;
  JobStore store;
  WorkClock clock;
  session::Task task;
  JobReply reply;
};

}  // namespace

JobReply do_job(const JobNeeds& needs, const JobRequest& request, WorkerScratch& scratch) {
  Surroundings around(needs, request);
  const auto run = around.open(&scratch);
  if (run == nullptr) return std::move(around.reply);
  return std::move(around.done(run->execute(around.task)));
}

struct Job::Parts {
  Parts(const JobNeeds& needs, const JobRequest& request) : around(needs, request) {}

  Surroundings around;
  std::unique_ptr<DeviceRun> run;
  std::optional<DeviceRun::Training> training;
  std::optional<FusedSelection> selection;
};

Job::Job(const JobNeeds& needs, const JobRequest& request) : parts_(std::make_unique<Parts>(needs, request)) {}

Job::~Job() = default;

void Job::prepare() {
  parts_->run = parts_->around.open(nullptr);
  if (parts_->run == nullptr) return;
  auto prepared = parts_->run->prepare(parts_->around.task);
  if (auto* executed = std::get_if<session::Executed>(&prepared)) {
    parts_->around.done(std::move(*executed));
    return;
  }
  parts_->training = std::get<DeviceRun::Training>(prepared);
  parts_->selection = parts_->run->fused_selection(parts_->around.task);
}

const DeviceRun::Training* Job::training() const { return parts_->training ? &*parts_->training : nullptr; }

std::optional<FusedSelection>& Job::selection() { return parts_->selection; }

void Job::finish(const Result<LocalResult>& trained) {
  const bool is_selected = parts_->selection && parts_->selection->is_done;
  parts_->around.done(
      parts_->run->finish(parts_->around.task, trained, is_selected ? &parts_->selection->selection : nullptr));
}

JobReply Job::take_reply() { return std::move(parts_->around.reply); }

}  // namespace gleaner::simulation
