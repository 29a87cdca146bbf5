// The work of the virtual devices: real training on the pool's threads, between two moments of virtual time. Only the
// works that end next are in the pool, so that a cohort of ten thousand does not hold ten thousand results.

#include <algorithm>

#include "common/check.hpp"
#include "common/hash.hpp"
#include "simulation/world/fleet.hpp"

namespace gleaner::simulation {
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
  JobRequest& request = work->request;
  request.device = device;
  request.plan = action.task.plan;
  request.sync = share(std::move(action.task.sync));
  if (const auto known = unsaved_.find(device); known != unsaved_.end()) request.settled = known->second;
  request.began = needs_.time->now();
  request.wants_update = needs_.ledger != nullptr;
  const Plan& plan = request.plan;
  const DeviceTraits traits = needs_.devices->traits(device);
  // A plan that was answered before is answered from what is stored.
  if (summary->answered != plan.id)
    request.takes = compute_time(traits, samples_of(plan, needs_.data->count_of(device)));
  // Where everybody must answer, a device that dropped a plan may do it at the next try; else it never does.
  const std::uint64_t draw = needs_.spec.reproducible ? works_ : plan.id.value;
  if (drops_plan(traits, {needs_.seed, device, static_cast<std::uint32_t>(draw)})) {
    work->death = Mishaps::Death::before_it_is_stored;
  } else if (needs_.mishaps != nullptr) {
    work->death = needs_.mishaps->dies(device);
    request.disk_is_full = needs_.mishaps->state_disk_is_full(device);
  }
  awake.work = work;
  const Due due{request.began + request.takes, ++works_};
  due_[due] = {device, work};
  needs_.time->at(due.ends, [this, device, work, due] { finish(device, work, due); });
  fill_window();
}

void Fleet::submit(std::uint32_t device, const std::shared_ptr<Work>& work) {
  if (std::exchange(work->submitted, true) || work->death == Mishaps::Death::before_it_is_stored) return;
  const auto cost = static_cast<double>(samples_of(work->request.plan, needs_.data->count_of(device)));
  // The job does not outlive the ticket, which the work holds.
  work->ticket = needs_.pool->submit(cost, [this, w = work.get()](WorkerScratch& scratch) { run_job(*w, scratch); });
}

void Fleet::fill_window() {
  if (needs_.waves != nullptr) return;  // a wave begins when the first of its works ends
  const std::size_t window = 4UL * needs_.pool->threads() + 4;
  std::size_t seen = 0;
  for (auto it = due_.begin(); it != due_.end() && seen < window; ++it, ++seen)
    submit(it->second.first, it->second.second);
}

// Here, or by another process that has nothing to do.
void Fleet::run_job(Work& work, WorkerScratch& scratch) const {
  auto state = needs_.states->load(work.request.device);
  if (!state) {
    work.reply.error = state.error();
    return;
  }
  work.request.state = std::move(*state);
  std::optional<Bytes> elsewhere;
  if (needs_.ranks != nullptr) elsewhere = needs_.ranks->ask(encode_request(work.request));
  if (elsewhere) {
    auto reply = decode_reply(*elsewhere);
    work.reply = reply ? std::move(*reply) : JobReply{.error = reply.error()};
  } else {
    work.reply = do_job(jobs_, work.request, scratch);
  }
  work.request.state.reset();
}

// False: the simulation cannot go on.
bool Fleet::store(std::uint32_t device, Work& work) {
  JobReply& reply = work.reply;
  if (reply.error) {
    needs_.on_fatal(*reply.error);
    return false;
  }
  samples_trained_ += samples_of(work.request.plan, needs_.data->count_of(device));
  if (!reply.saved) return true;
  if (const Status saved = needs_.states->save(device, std::move(reply.saved)); !saved) {
    needs_.on_fatal(saved.error());
    return false;
  }
  unsaved_.erase(device);
  if (needs_.ledger != nullptr && reply.done->answer && !reply.update.empty())
    needs_.ledger->answered(device, reply.update, *reply.done->answer);
  return true;
}

void Fleet::finish(std::uint32_t device, const std::shared_ptr<Work>& work, Due due) {
  due_.erase(due);
  const auto it = awake_.find(device);
  if (it == awake_.end() || it->second->work != work) {
    fill_window();
    return;  // it died meanwhile
  }
  if (needs_.waves != nullptr) {
    work_off_wave(*work);
  } else {
    submit(device, work);
  }
  fill_window();
  if (work->death == Mishaps::Death::before_it_is_stored) return kill(device);
  work->ticket.wait();
  if (!store(device, *work)) return;
  if (work->death == Mishaps::Death::after_it_is_stored) return kill(device);
  Awake& awake = *it->second;
  awake.work.reset();
  tell(device, std::move(*work->reply.done));
  do_work(device);
}

}  // namespace gleaner::simulation
