// The work of the virtual devices: real training on the pool's threads, between two moments of virtual time. Only the
// works that end next are in the pool, so that a cohort of ten thousand does not hold ten thousand results.

#include <algorithm>

#include "common/check.hpp"
#include "common/hash.hpp"
#include "simulation/world/fleet.hpp"

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

std::shared_ptr<const Bytes> Fleet::share(Bytes sync) {
  if (sync.empty()) return nullptr;
  auto& known = syncs_[digest_of(sync).value];
  auto shared = known.lock();
  if (shared && *shared == sync) return shared;
  shared = std::make_shared<const Bytes>(std::move(sync));
  known = shared;
  if (syncs_.size() > 4096) std::erase_if(syncs_, [](const auto& entry) { return entry.second.expired(); });
  return shared;
}

std::uint64_t Fleet::samples_of(const Plan& plan, std::uint32_t samples) const {
  std::uint64_t trained = std::uint64_t{samples} * needs_.spec.local_epochs;
  if (plan.steps_max != 0) trained = std::min(trained, std::uint64_t{plan.steps_max} * needs_.spec.batch_size);
  return trained;
}

void Fleet::execute(std::uint32_t device, session::Execute action) {
  Awake& awake = *awake_.at(device);
  const auto summary = summary_of(device);
  if (!summary) return needs_.on_fatal(summary.error());
  auto work = std::make_shared<Work>();
  work->sync = share(std::move(action.task.sync));
  work->task = std::move(action.task);
  work->task.sync = {};
  if (const auto known = unsaved_.find(device); known != unsaved_.end()) work->settled = known->second;
  work->began = needs_.time->now();
  const Plan& plan = work->task.plan;
  const DeviceTraits traits = needs_.devices->traits(device);
  // A plan that was answered before is answered from what is stored.
  if (summary->answered != plan.id) work->takes = compute_time(traits, samples_of(plan, needs_.data->count_of(device)));
  if (drops_plan(traits, {needs_.seed, device, static_cast<std::uint32_t>(plan.id.value)})) {
    work->death = Mishaps::Death::before_it_is_stored;
  } else if (needs_.mishaps != nullptr) {
    work->death = needs_.mishaps->dies(device);
    work->disk_is_full = needs_.mishaps->state_disk_is_full(device);
  }
  awake.work = work;
  const Due due{work->began + work->takes, ++works_};
  due_[due] = {device, work};
  needs_.time->at(due.ends, [this, device, work, due] { finish(device, work, due); });
  fill_window();
}

void Fleet::submit(std::uint32_t device, const std::shared_ptr<Work>& work) {
  if (std::exchange(work->submitted, true) || work->death == Mishaps::Death::before_it_is_stored) return;
  const auto cost = static_cast<double>(samples_of(work->task.plan, needs_.data->count_of(device)));
  // The job does not outlive the ticket, which the work holds.
  work->ticket = needs_.pool->submit(
      cost, [this, device, w = work.get()](WorkerScratch& scratch) { run_job(device, *w, scratch); });
}

void Fleet::fill_window() {
  const std::size_t window = 4UL * needs_.pool->threads() + 4;
  std::size_t seen = 0;
  for (auto it = due_.begin(); it != due_.end() && seen < window; ++it, ++seen)
    submit(it->second.first, it->second.second);
}

void Fleet::run_job(std::uint32_t device, Work& work, WorkerScratch& scratch) const {
  auto state = needs_.states->load(device);
  if (!state) {
    work.error = state.error();
    return;
  }
  if (work.sync) work.task.sync = *work.sync;
  JobStore store(std::move(*state), work.disk_is_full);
  const WorkClock clock(work.began, work.takes);
  DeviceRun::Needs needs{.samples = needs_.data->samples_of(device),
                         .store = &store,
                         .kernels = needs_.kernels,
                         .clock = &clock,
                         .name = needs_.names->name_of(device),
                         .network = &scratch.network_for(model_),
                         .scratch = &scratch.local};
  if (needs_.ledger != nullptr)
    needs.on_update = [&work](std::span<const float> update) { work.update.assign(update.begin(), update.end()); };
  auto run = DeviceRun::open(needs_.spec, needs_.lineage, std::move(needs));
  if (!run) {
    work.error = run.error();
    return;
  }
  for (const Settled& settled : work.settled) (*run)->settle(settled.plan, settled.outcome);
  work.done = (*run)->execute(work.task);
  work.saved = store.take_saved();
  work.task.sync = {};
}

// False: the simulation cannot go on.
bool Fleet::store(std::uint32_t device, Work& work) {
  if (work.error) {
    needs_.on_fatal(*work.error);
    return false;
  }
  samples_trained_ += samples_of(work.task.plan, needs_.data->count_of(device));
  if (!work.saved) return true;
  if (const Status saved = needs_.states->save(device, std::move(work.saved)); !saved) {
    needs_.on_fatal(saved.error());
    return false;
  }
  unsaved_.erase(device);
  if (needs_.ledger != nullptr && work.done->answer && !work.update.empty())
    needs_.ledger->answered(device, work.update, *work.done->answer);
  return true;
}

void Fleet::finish(std::uint32_t device, const std::shared_ptr<Work>& work, Due due) {
  due_.erase(due);
  const auto it = awake_.find(device);
  if (it == awake_.end() || it->second->work != work) {
    fill_window();
    return;  // it died meanwhile
  }
  submit(device, work);
  fill_window();
  if (work->death == Mishaps::Death::before_it_is_stored) return kill(device);
  work->ticket.wait();
  if (!store(device, *work)) return;
  if (work->death == Mishaps::Death::after_it_is_stored) return kill(device);
  Awake& awake = *it->second;
  awake.work.reset();
  tell(device, std::move(*work->done));
  do_work(device);
}

}  // namespace gleaner::simulation
