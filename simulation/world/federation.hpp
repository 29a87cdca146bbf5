#pragma once
// One experiment: a coordinator and its devices under virtual time, from its beginning or from a checkpoint, to its
// end.
//
// A checkpoint is a kill -9 of everybody at a fixed round: what is stored is kept, what was under way is done again.
// Because the uninterrupted experiment does the same at that round, one that is resumed there ends with the same bits.

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "simulation/experiment.hpp"
#include "simulation/output/round_output.hpp"
#include "simulation/world/coordinator.hpp"
#include "simulation/world/fleet.hpp"
#include "simulation/world/mishaps.hpp"

namespace gleaner::simulation {

class Federation final : private VirtualNetwork::Ends {
 public:
  struct Needs {
    const Experiment* experiment = nullptr;
    const Devices* devices = nullptr;
    const SampleSource* data = nullptr;
    std::shared_ptr<const Dataset> evaluation;  // null: none
    WorkerPool* pool = nullptr;
    const KernelTable* kernels = nullptr;
    std::string folder;                                  // existing; for the database, states and checkpoints
    std::uint32_t checkpoint_every = 0;                  // rounds; 0: never
    Ledger* ledger = nullptr;                            // null: nobody keeps the books
    Ranks* ranks = nullptr;                              // null: this process alone
    WaveTrainer* waves = nullptr;                        // null: the pool trains
    bool greets_frame_by_frame = false;                  // for tests: see Fleet
    std::function<Status(const RoundRecord&)> on_round;  // once a round, in order, when its figures are complete
  };

  // A new experiment; conflict: the folder has one already.
  static Result<std::unique_ptr<Federation>> create(Needs needs);
  // Its errors alone. One that was killed before its first round and its first checkpoint is none.
  static Status check_new(const std::string& folder);
  // Goes on from the last checkpoint. not_found: there is none; bad_input: of another experiment, names the keys.
  static Result<std::unique_ptr<Federation>> resume(Needs needs);
  // Whether resume() would find the state of this experiment there; its errors otherwise.
  static Status check_resume(const Experiment& experiment, const std::string& folder);
  ~Federation() override;

  enum class End : std::uint8_t { finished, stopped, time_limit };
  // stop: set by a signal handler; the experiment then ends after the round.
  Result<End> run(const std::atomic<bool>& stop);

  std::uint32_t rounds_done() const { return rounds_closed_; }
  std::uint32_t resumable_from() const { return checkpoint_round_; }  // the round of the last checkpoint
  RunStatus status() const { return coordinator_->engine().status(); }
  const LineBytes& bytes() const { return network_->bytes(); }
  double virtual_seconds() const { return to_seconds(time_.now().since_start); }
  double real_seconds() const;  // all attempts together
  // Over all attempts, but for what a resumed one had trained beyond its checkpoint.
  std::uint64_t samples_trained() const { return samples_trained_before_ + fleet_->samples_trained(); }
  std::uint64_t events() const { return time_.happened(); }
  std::uint64_t crashes() const { return crashes_ + fleet_->crashes(); }
  const DeviceStates& states() const { return *states_; }
  Database& database() { return coordinator_->database(); }
  const Names& names() const { return names_; }
  RunId run_id() const { return coordinator_->run(); }

 private:
  explicit Federation(Needs needs);
  Status prepare();
  std::string path_of(const std::string& name) const { return needs_.folder + "/" + name; }

  // VirtualNetwork::Ends.
  void connected(std::uint32_t device) override;
  void disconnected(std::uint32_t device, const std::string& reason) override;
  void arrived_up(std::uint32_t device, const Bytes& frame, Duration sending) override;
  void arrived_down(std::uint32_t device, const Bytes& frame) override;

  void look();  // for rounds that closed and evaluations that came
  void close_round(const RunStatus& status);
  void give_out();
  Status begin();
  void wait_for_coming(std::uint32_t expected, Instant until);
  void round_begins();
  void crash_coordinator();
  void after_recovery();
  Error stuck() const;
  std::string open_work() const;
  Result<End> leave(End end);
  // checkpoint.cpp
  Status restart();
  Status checkpoint();
  Status write_checkpoint();
  Status evaluate_now();
  Status read_checkpoint();
  Bytes manifest_bytes(const DeviceStates::Manifest& states) const;
  void fail_with(const Error& error) {
    if (!error_) error_ = error;
  }

  Needs needs_;
  Names names_;
  VirtualTime time_;
  std::unique_ptr<DeviceStates> states_;
  std::unique_ptr<VirtualNetwork> network_;
  std::unique_ptr<BadWorld> bad_world_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<Fleet> fleet_;
  std::optional<Error> error_;
  bool finished_ = false;

  std::uint32_t rounds_closed_ = 0;
  std::uint32_t rounds_told_ = 0;
  Version version_;
  Instant last_close_;
  bool checkpoint_due_ = false;
  std::uint32_t checkpoint_round_ = 0;  // of the last one
  LineBytes bytes_given_;
  round::Counters counters_given_;
  Traffic traffic_given_;
  struct Waiting {
    RoundRecord record;
    bool wants_evaluation = false;
  };
  std::deque<Waiting> waiting_;                                   // for their evaluation
  std::map<std::uint32_t, std::pair<double, double>> evaluated_;  // by version
  Instant real_began_;
  double real_seconds_before_ = 0.0;
  std::uint64_t samples_trained_before_ = 0;
  std::uint64_t crashes_ = 0;
};

}  // namespace gleaner::simulation
