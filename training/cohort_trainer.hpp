#pragma once
// Many devices trained on all cores: a job a device, one queue, the most expensive job first. A worker keeps its
// networks and buffers from job to job, so that memory grows with the cores and not with the cohort. What a job
// computes depends on its own data alone: results are the same bits for every number of threads and every order. Jobs
// report errors in what they compute; of exceptions only std::bad_alloc may leave a job, and reaches whoever waits for
// it.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "common/error.hpp"
#include "training/trainer.hpp"

namespace gleaner {

// What a worker keeps between jobs; nothing that a result may depend on. References end with the job.
class WorkerScratch {
 public:
  Network& network_for(const ModelSpec& spec);  // of the last few specs; the others are given up
  LocalScratch local;
  LocalResult result;  // for a job that looks at a result and gives only a part of it away

 private:
  std::vector<std::unique_ptr<Network>> networks_;  // the last used at the end
};

class WorkerPool;

// A job's place in the queue. Ends with its owner: a job that has not begun is taken back, one that runs is waited for.
class Ticket {
 public:
  Ticket() = default;  // of no job: done
  Ticket(Ticket&& other) noexcept;
  Ticket& operator=(Ticket&& other) noexcept;
  ~Ticket();

  bool is_done() const;
  // Until the job is done. The caller works meanwhile: on this job, if nobody has begun it, else on others, so that
  // a wait can take as long as another job. std::bad_alloc: the job ran out of memory. Not from inside a job.
  void wait();

 private:
  friend class WorkerPool;
  struct Job;
  Ticket(WorkerPool& pool, std::shared_ptr<Job> job) : pool_(&pool), job_(std::move(job)) {}
  void release();

  WorkerPool* pool_ = nullptr;
  std::shared_ptr<Job> job_;
};

class WorkerPool {
 public:
  static constexpr unsigned kMaxThreads = 64;  // OpenBLAS has buffers for a limited number of callers

  // So many cores work at once, 0: all of the machine. One of them is whoever waits: with one thread everything runs
  // inside wait().
  explicit WorkerPool(unsigned threads);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  ~WorkerPool();  // every ticket has ended before

  unsigned threads() const { return static_cast<unsigned>(workers_.size()) + 1; }

  // Thread-safe. cost orders the queue only; any unit, equal costs in order of arrival.
  [[nodiscard]] Ticket submit(double cost, std::move_only_function<void(WorkerScratch&)> work);

 private:
  friend class Ticket;
  using Job = Ticket::Job;
  struct ExpensiveFirst {
    bool operator()(const std::shared_ptr<Job>& a, const std::shared_ptr<Job>& b) const;
  };
  using Lock = std::unique_lock<std::mutex>;

  void work_until_stopped(const std::stop_token& stop);
  void run(Lock& lock, const std::shared_ptr<Job>& job, WorkerScratch& scratch);
  void help_until_done(const std::shared_ptr<Job>& job);
  void take_back(const std::shared_ptr<Job>& job);

  std::mutex mutex_;
  std::condition_variable_any queued_;  // something to do, or the end
  std::condition_variable done_;        // a job ended, or a waiting thread can help again
  std::set<std::shared_ptr<Job>, ExpensiveFirst> queue_;
  std::uint64_t submitted_ = 0;
  std::uint32_t running_ = 0;
  std::vector<std::unique_ptr<WorkerScratch>> spare_;  // of threads that helped while they waited
  std::vector<std::jthread> workers_;                  // last, so that they end first
};

// One device's turn. What the spans show stays where it is until the turn is done.
struct CohortTurn {
  std::span<const std::uint32_t> samples;
  std::span<const float> parameters;
  LocalWork work;
  Turn turn;
};

// train_local() for every turn, on all workers of the pool; each result is handed over in order, on the calling thread,
// and its memory is free again when `take` returns. The dataset must fit the spec.
void train_cohort(WorkerPool& pool, const ModelSpec& spec, const Dataset& dataset, std::span<const CohortTurn> turns,
                  const std::function<void(std::size_t turn, Result<LocalResult> result)>& take);

}  // namespace gleaner
