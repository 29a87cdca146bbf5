#pragma once
// The virtual devices: the daemon's session and the daemon's work, on a pool of real threads, under virtual time. A
// device that has nothing to do is asleep: its session is made again from what was said when something happens to it,
// so that a device which never took part costs a byte here. What a device keeps lies in DeviceStates. One owner.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "client/engine/device_run.hpp"
#include "client/session/session.hpp"
#include "simulation/ranks/ranks.hpp"
#include "simulation/world/device_states.hpp"
#include "simulation/world/job.hpp"
#include "simulation/world/ledger.hpp"
#include "simulation/world/names.hpp"
#include "simulation/world/network.hpp"
#include "simulation/world/virtual_time.hpp"
#include "training/cohort_trainer.hpp"

namespace gleaner::simulation {

// What happens to plans and states in a bad world; asked in the order of virtual time.
class Mishaps {
 public:
  virtual ~Mishaps() = default;
  // Whether the device dies while it works on this plan: nothing of the work is kept, or all of it but nobody is told.
  enum class Death : std::uint8_t { none, before_it_is_stored, after_it_is_stored };
  virtual Death dies(std::uint32_t device) = 0;
  virtual bool state_disk_is_full(std::uint32_t device) = 0;
};

class Fleet {
 public:
  struct Needs {
    VirtualTime* time = nullptr;
    VirtualNetwork* network = nullptr;
    const Devices* devices = nullptr;
    const SampleSource* data = nullptr;
    const Names* names = nullptr;
    DeviceStates* states = nullptr;
    WorkerPool* pool = nullptr;
    const KernelTable* kernels = nullptr;
    Mishaps* mishaps = nullptr;  // null: none
    Ledger* ledger = nullptr;    // null: nobody keeps the books
    Ranks* ranks = nullptr;      // other processes that do jobs too; null: none
    // Trains many at once, on the samples that `data` has as a whole; null: the pool trains each by itself.
    WaveTrainer* waves = nullptr;
    std::uint64_t seed = 0;
    std::uint32_t count = 0;
    RunSpec spec;  // as it is offered
    Lineage lineage;
    std::function<void(std::uint32_t device)> on_hang_up;                       // the device ends its connection
    std::function<void(std::uint32_t device, const Accept& accept)> on_joined;  // said outside of its line
    bool greets_frame_by_frame = false;  // also where the end of it is known; for tests
    std::function<void(Error)> on_fatal;
  };
  Fleet(Needs needs, const ModelSpec& model);
  ~Fleet();

  void begin();  // all devices connect as soon as they can be reached
  // As kill -9 of every daemon at once: they hold what was stored. Those that can be reached are on their lines again
  // without a handshake, and say through on_joined() what they hold; nothing of it crosses a line.
  void restart();
  // As kill -9 of one.
  void kill(std::uint32_t device);

  // From the lines.
  void connected(std::uint32_t device);
  void disconnected(std::uint32_t device, const std::string& reason);
  void arrived(std::uint32_t device, const Bytes& frame);

  std::uint32_t awake() const { return static_cast<std::uint32_t>(awake_.size()); }
  std::uint64_t samples_trained() const { return samples_trained_; }
  std::uint64_t crashes() const { return crashes_; }

  std::string describe(std::uint32_t device) const;  // for people: what it does now

  // Unless its state says otherwise, what it would say on coming: from states alone.
  Result<StateSummary> summary_of(std::uint32_t device) const;

 private:
  // The job's thread writes the reply, the owner reads it when the ticket is done.
  struct Work {
    JobRequest request;
    JobReply reply;
    Mishaps::Death death = Mishaps::Death::none;
    Ticket ticket;
    bool submitted = false;
  };
  struct Awake {
    explicit Awake(session::Identity identity) : session(std::move(identity)) {}
    session::Session session;
    std::deque<session::Action> later;  // work asked for while it works
    std::shared_ptr<Work> work;
    std::uint32_t retries = 0;
    std::uint64_t timer = 0;    // of the session: the newest start counts
    std::uint32_t pending = 0;  // answers of its worker that are on their way to the session
    std::uint64_t life = 0;     // never the same twice
  };
  struct Due {  // a piece of work by its end in virtual time
    Instant ends;
    std::uint64_t order;
    friend auto operator<=>(const Due&, const Due&) = default;
  };

  Awake& wake(std::uint32_t device);
  void rest(std::uint32_t device);
  void feed(std::uint32_t device, const session::Event& event);
  void perform(std::uint32_t device, session::Action action);
  void do_work(std::uint32_t device);
  void open_run(std::uint32_t device);
  void execute(std::uint32_t device, session::Execute action);
  void submit(std::uint32_t device, const std::shared_ptr<Work>& work);
  void run_job(Work& work, WorkerScratch& scratch) const;
  void fill_window();
  // fleet_waves.cpp: this work and all that wait with it.
  void work_off_wave(Work& first);
  std::vector<Work*> gather_wave(Work& first);
  void train_wave(std::span<const std::unique_ptr<Job>> jobs, std::span<Work* const> works);
  void finish(std::uint32_t device, const std::shared_ptr<Work>& work, Due due);
  bool store(std::uint32_t device, Work& work);
  void load_answer(std::uint32_t device, PlanId plan);
  void send_answer(std::uint32_t device, const session::Answer& answer);
  void reconnect(std::uint32_t device, Duration at_least);
  void start(std::uint32_t device);
  void start_some(std::uint32_t from);
  bool join_quickly(std::uint32_t device, const Availability& availability);
  void connect_when_reachable(std::uint32_t device);
  void watch_availability(std::uint32_t device, const Availability& availability);
  void hang_up(std::uint32_t device);
  // For what the device's worker says: lost when the device died meanwhile.
  void tell(std::uint32_t device, session::Event event);
  Accept accept_of(const StateSummary& summary, std::uint32_t samples) const;
  std::shared_ptr<const Bytes> share(Bytes sync);
  std::uint64_t samples_of(const Plan& plan, std::uint32_t samples) const;

  Needs needs_;
  const JobNeeds jobs_;
  const session::Identity identity_;
  VirtualNetwork::Greeting greeting_;  // of a device that comes for the first time
  std::unordered_map<std::uint32_t, std::unique_ptr<Awake>> awake_;
  std::vector<std::uint8_t> joined_;                                    // sleeps with an accepted run
  std::map<std::uint32_t, std::vector<Settled>> unsaved_;               // outcomes that no stored state knows yet
  std::map<Due, std::pair<std::uint32_t, std::shared_ptr<Work>>> due_;  // by their end; the first few are in the pool
  std::uint64_t works_ = 0;
  std::unordered_map<std::uint64_t, std::weak_ptr<const Bytes>> syncs_;  // by digest
  std::uint64_t lives_ = 0;
  bool told_of_waves_ = false;
  std::uint64_t samples_trained_ = 0;
  std::uint64_t crashes_ = 0;
};

}  // namespace gleaner::simulation
