// The work of the virtual devices where many are trained at once: what waits is gathered, prepared on the pool's
// threads, trained as a wave, and finished on the pool's threads.

#include <algorithm>

#include "common/check.hpp"
#include "common/log.hpp"
#include "simulation/world/fleet.hpp"

namespace gleaner::simulation {
namespace {

// A device that works has its model, its residual, its update and its new state in memory.
constexpr std::uint64_t kWaveBytes = std::uint64_t{4} << 30U;
constexpr std::uint64_t kCopies = 5;
constexpr std::size_t kWaveMost = 1'024;

}  // namespace

// By the end of their work in virtual time, so that a wave is the same in every run.
std::vector<Fleet::Work*> Fleet::gather_wave(Work& first) {
  const std::uint64_t device_bytes = kCopies * sizeof(float) * std::max<std::uint64_t>(needs_.spec.dimension, 1);
  const std::size_t most = std::clamp<std::size_t>(kWaveBytes / device_bytes, 1, kWaveMost);
  std::vector<Work*> works;
  const auto take = [&](Work& work) {
    if (work.death == Mishaps::Death::before_it_is_stored || std::exchange(work.submitted, true)) return;
    works.push_back(&work);
  };
  take(first);
  if (works.empty()) return works;
  for (auto it = due_.begin(); it != due_.end() && works.size() < most; ++it) take(*it->second.second);
  return works;
}

void Fleet::work_off_wave(Work& first) {
  const auto works = gather_wave(first);
  std::vector<std::unique_ptr<Job>> jobs(works.size());
  std::vector<Ticket> tickets(works.size());
  for (std::size_t i = 0; i < works.size(); ++i) {
    tickets[i] = needs_.pool->submit(0.0, [this, &work = *works[i], &job = jobs[i]](WorkerScratch&) {
      auto state = needs_.states->load(work.request.device);
      if (!state) {
        work.reply.error = state.error();
        return;
      }
      work.request.state = std::move(*state);
      job = std::make_unique<Job>(jobs_, work.request);
      job->prepare();
    });
  }
  for (Ticket& ticket : tickets) ticket.wait();
  train_wave(jobs, works);
  for (std::size_t i = 0; i < works.size(); ++i) {
    if (jobs[i] != nullptr) works[i]->reply = jobs[i]->take_reply();
    works[i]->request.state.reset();
  }
}

// A wave that fails ends the experiment: what another processor made of it would differ in its last bits.
void Fleet::train_wave(std::span<const std::unique_ptr<Job>> jobs, std::span<Work* const> works) {
  std::vector<std::size_t> of_turn;
  std::vector<std::vector<std::uint32_t>> places;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i] == nullptr || jobs[i]->training() == nullptr) continue;
    of_turn.push_back(i);
    places.push_back(needs_.data->places_of(works[i]->request.device));
  }
  std::vector<CohortTurn> turns;
  std::vector<FusedSelection> selections;
  for (std::size_t t = 0; t < of_turn.size(); ++t) {
    const auto& training = *jobs[of_turn[t]]->training();
    turns.push_back(
        {.samples = places[t], .parameters = training.parameters, .work = training.work, .turn = training.turn});
    if (const auto& selection = jobs[of_turn[t]]->selection()) selections.push_back(*selection);
  }
  if (selections.size() != turns.size()) selections.clear();  // the compressor is the same for all
  std::vector<Ticket> tickets(turns.size());
  const Status trained = needs_.waves->train(turns, selections, [&](std::size_t turn, Result<LocalResult> result) {
    Job& job = *jobs[of_turn[turn]];
    if (!selections.empty()) job.selection() = std::move(selections[turn]);
    tickets[turn] =
        needs_.pool->submit(0.0, [&job, result = std::move(result)](WorkerScratch&) { job.finish(result); });
  });
  for (Ticket& ticket : tickets) ticket.wait();
  if (!trained) {
    for (Work* const work : works) {
      if (!work->reply.error) work->reply.error = trained.error();
    }
    return needs_.on_fatal(trained.error());
  }
  if (!turns.empty() && !std::exchange(told_of_waves_, true)) log_info("training on {}", needs_.waves->describe());
}

}  // namespace gleaner::simulation
