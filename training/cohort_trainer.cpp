#include "training/cohort_trainer.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "common/check.hpp"

namespace gleaner {
namespace {

constexpr std::size_t kNetworksKept = 4;  // a cohort has one model, evaluation and comparisons a few more

// A job that waits for another could wait for itself, and would need a second scratch.
thread_local bool inside_job = false;

}  // namespace

struct Ticket::Job {
  enum class State { queued, running, done };

  double cost;
  std::uint64_t number;
  std::move_only_function<void(WorkerScratch&)> work;
  State state = State::queued;
  bool out_of_memory = false;
};

Network& WorkerScratch::network_for(const ModelSpec& spec) {
  const auto found = std::ranges::find_if(networks_, [&](const auto& network) { return network->spec() == spec; });
  if (found != networks_.end()) {
    std::rotate(found, found + 1, networks_.end());
  } else {
    if (networks_.size() == kNetworksKept) networks_.erase(networks_.begin());
    networks_.push_back(std::make_unique<Network>(spec));
  }
  return *networks_.back();
}

Ticket::Ticket(Ticket&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), job_(std::exchange(other.job_, nullptr)) {}

Ticket& Ticket::operator=(Ticket&& other) noexcept {
  if (this != &other) {
    release();
    pool_ = std::exchange(other.pool_, nullptr);
    job_ = std::exchange(other.job_, nullptr);
  }
  return *this;
}

Ticket::~Ticket() { release(); }

void Ticket::release() {
  if (job_ == nullptr) return;
  pool_->take_back(job_);
  job_.reset();
}

bool Ticket::is_done() const {
  if (job_ == nullptr) return true;
  const std::scoped_lock lock(pool_->mutex_);
  return job_->state == Job::State::done;
}

void Ticket::wait() {
  if (job_ == nullptr) return;
  pool_->help_until_done(job_);
  const bool out_of_memory = job_->out_of_memory;
  job_.reset();
  if (out_of_memory) throw std::bad_alloc();
}

bool WorkerPool::ExpensiveFirst::operator()(const std::shared_ptr<Job>& a, const std::shared_ptr<Job>& b) const {
  return a->cost != b->cost ? a->cost > b->cost : a->number < b->number;
}

WorkerPool::WorkerPool(unsigned threads) {
  if (threads == 0) threads = std::min(kMaxThreads, std::max(1U, std::thread::hardware_concurrency()));
  GLEANER_CHECK(threads <= kMaxThreads);
  for (unsigned i = 1; i < threads; ++i) {
    workers_.emplace_back([this](const std::stop_token& stop) { work_until_stopped(stop); });
  }
}

WorkerPool::~WorkerPool() {
  const std::scoped_lock lock(mutex_);
  GLEANER_CHECK(queue_.empty() && running_ == 0);
}

Ticket WorkerPool::submit(double cost, std::move_only_function<void(WorkerScratch&)> work) {
  GLEANER_CHECK(cost >= 0.0 && work != nullptr);
  auto job = std::make_shared<Job>();
  job->cost = cost;
  job->work = std::move(work);
  {
    const std::scoped_lock lock(mutex_);
    job->number = submitted_++;
    queue_.insert(job);
  }
  queued_.notify_one();
  done_.notify_all();
  return {*this, std::move(job)};
}

void WorkerPool::work_until_stopped(const std::stop_token& stop) {
  WorkerScratch scratch;
  Lock lock(mutex_);
  while (queued_.wait(lock, stop, [&] { return !queue_.empty(); })) run(lock, *queue_.begin(), scratch);
}

// The job leaves the queue, runs without the lock, and is done when nothing of its closure is left. noexcept: whatever
// else is thrown is a broken invariant and ends the process here.
void WorkerPool::run(Lock& lock, const std::shared_ptr<Job>& queued, WorkerScratch& scratch) {
  const std::shared_ptr<Job> job = queued;  // the reference may be into the queue
  queue_.erase(job);
  job->state = Job::State::running;
  ++running_;
  lock.unlock();
  inside_job = true;
  const bool out_of_memory = [&]() noexcept {
    try {
      std::exchange(job->work, nullptr)(scratch);
      return false;
    } catch (const std::bad_alloc&) {
      return true;
    }
  }();
  inside_job = false;
  lock.lock();
  --running_;
  job->out_of_memory = out_of_memory;
  job->state = Job::State::done;
  done_.notify_all();
}

void WorkerPool::help_until_done(const std::shared_ptr<Job>& job) {
  GLEANER_CHECK(!inside_job);
  Lock lock(mutex_);
  if (job->state == Job::State::done) return;
  if (spare_.empty()) spare_.push_back(std::make_unique<WorkerScratch>());
  std::unique_ptr<WorkerScratch> scratch = std::move(spare_.back());
  spare_.pop_back();
  while (job->state != Job::State::done) {
    if (job->state == Job::State::queued) {
      run(lock, job, *scratch);
    } else if (!queue_.empty()) {
      run(lock, *queue_.begin(), *scratch);
    } else {
      done_.wait(lock);
    }
  }
  spare_.push_back(std::move(scratch));
}

void WorkerPool::take_back(const std::shared_ptr<Job>& job) {
  std::move_only_function<void(WorkerScratch&)> unused;  // ends without the lock
  Lock lock(mutex_);
  if (job->state == Job::State::queued) {
    queue_.erase(job);
    unused = std::move(job->work);
    return lock.unlock();
  }
  done_.wait(lock, [&] { return job->state == Job::State::done; });
}

void train_cohort(WorkerPool& pool, const ModelSpec& spec, const Dataset& dataset, std::span<const CohortTurn> turns,
                  const std::function<void(std::size_t turn, Result<LocalResult> result)>& take) {
  struct Slot {
    Result<LocalResult> result;
    Ticket ticket;
  };
  std::vector<Slot> slots(turns.size());
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const CohortTurn& turn = turns[i];
    const double cost = static_cast<double>(turn.samples.size()) * turn.work.epochs;
    slots[i].ticket = pool.submit(cost, [&spec, &dataset, &turn, &slot = slots[i]](WorkerScratch& scratch) {
      slot.result = train_local(scratch.network_for(spec), dataset, turn.samples, turn.parameters, turn.work, turn.turn,
                                scratch.local);
    });
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    slots[i].ticket.wait();
    take(i, std::move(slots[i].result));
  }
}

}  // namespace gleaner
