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

  Result<std::optional<Bytes>> load(RunId) override {
    const auto& newest = saved_ ? saved_ : state_;
    return newest ? std::optional(*newest) : std::nullopt;
  }
  Status save(RunId, ByteView state) override {
    if (is_full_) return fail(ErrorCode::no_space, "the device's disk is full");
    saved_ = std::make_shared<const Bytes>(state.begin(), state.end());
    return {};
  }
  Status prune(RunId, std::size_t) override { return {}; }
  std::shared_ptr<const Bytes> take_saved() { return std::move(saved_); }

 private:
  std::shared_ptr<const Bytes> state_;
  std::shared_ptr<const Bytes> saved_;
  bool is_full_;
};

}  // namespace

JobReply do_job(const JobNeeds& needs, const JobRequest& request, WorkerScratch& scratch) {
  JobReply reply;
  JobStore store(request.state, request.disk_is_full);
  const WorkClock clock(request.began, request.takes);
  DeviceRun::Needs device{.samples = needs.data->samples_of(request.device),
                          .store = &store,
                          .kernels = needs.kernels,
                          .clock = &clock,
                          .name = needs.names->name_of(request.device),
                          .network = &scratch.network_for(needs.model),
                          .scratch = &scratch.local};
  if (request.wants_update)
    device.on_update = [&reply](std::span<const float> update) { reply.update.assign(update.begin(), update.end()); };
  const auto run = DeviceRun::open(needs.spec, needs.lineage, std::move(device));
  if (!run) {
    reply.error = run.error();
    return reply;
  }
  for (const Settled& settled : request.settled) (*run)->settle(settled.plan, settled.outcome);
  session::Task task{.plan = request.plan, .sync = request.sync ? *request.sync : Bytes{}};
  reply.done = (*run)->execute(task);
  reply.saved = store.take_saved();
  return reply;
}

}  // namespace gleaner::simulation
