#pragma once
// One run as a state machine without I/O: events and a time go in, actions come out. The service and the simulator
// drive the same code. No socket, file, thread, clock or random source lives here; the same events at the same times
// give the same actions. Single-threaded: one owner.
//
//   waiting -> issuing -> collecting -> closing -> stepping -> committing -> waiting ... -> finished
//
// A plan is stored before it is sent, and closed only by a committed answer, so that a restart resumes the open round
// with its own plans. An update that comes after its round closed enters the next one while its plan is at most
// staleness_max rounds old.

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compression/upload_rule.hpp"
#include "coordinator/round/events.hpp"
#include "coordinator/run_settings.hpp"

namespace gleaner::round {

enum class Phase { waiting, issuing, collecting, closing, stepping, committing, suspended, finished };
std::string_view to_string(Phase phase);

struct Counters {
  std::uint64_t uploads = 0;       // updates folded and committed
  std::uint64_t late_uploads = 0;  // of these, in a later round than planned
  std::uint64_t skips = 0;
  std::uint64_t refusals = 0;
  std::uint64_t lapsed_plans = 0;  // closed without an answer
  std::uint64_t empty_rounds = 0;
};

// What storage remembers of the run.
struct Start {
  Lineage lineage;
  double divisor = 0.0;
  std::uint32_t rounds_done = 0;
  PlanId next_plan{1};
  Version version;
  std::uint64_t model_hash = 0;
  std::vector<PlanRow> open_plans;
  std::deque<RoundReport> history;  // newest last
  Counters counters;
  bool paused = false;
  bool lineage_may_change = true;  // false: devices that claim a later version are not believed
};

struct DeviceView {
  bool connected = false;
  std::uint32_t samples = 0;
  PlanId open_plan;
  DeviceProfile profile;
};

class Machine {
 public:
  // planner and rule must outlive the machine.
  Machine(const RunSettings& settings, Start start, const Planner& planner, const UploadRule& rule);

  std::vector<Action> begin(Instant now);  // once, before the first event
  std::vector<Action> handle(const Event& event, Instant now);

  Phase phase() const { return phase_; }
  std::uint32_t round() const { return round_; }  // the open one, or the last
  Version version() const { return version_; }
  std::uint64_t model_hash() const { return model_hash_; }
  const Counters& counters() const { return counters_; }
  bool plan_is_open(PlanId plan) const { return plans_.contains(plan); }
  std::map<DeviceName, DeviceView> devices() const;
  std::optional<DeviceProfile> profile_of(const DeviceName& device) const;  // none: not known
  bool knows(const DeviceName& device) const { return devices_.contains(device); }
  std::size_t devices_known() const { return devices_.size(); }
  std::size_t devices_connected() const { return connected_; }
  const std::string& waiting_for() const { return waiting_for_; }
  // Why nothing can be stored; stays while it is tried again. Empty: it can.
  const std::string& suspension() const { return suspension_; }

 private:
  enum class PlanState { sent, deferred, folding, folded, skipped, refused };
  struct OpenPlan {
    PlanRow row;
    PlanState state = PlanState::sent;  // move() changes it
    AnswerRow answer;
    Instant issued;
    bool in_this_round(std::uint32_t round) const { return row.round == round; }
  };
  // Kept small: a population may have a million of them. Its name is the key.
  struct Device {
    PlanId open_plan;
    PlanId to_settle;
    double uplink_bytes_per_s = 0.0;
    double downlink_bytes_per_s = 0.0;
    double samples_per_s = 0.0;
    std::uint32_t samples = 0;
    Version holds;
    std::uint32_t planned_round = 0;  // the last one it was planned for, or in which it came
    std::uint32_t failures_in_a_row = 0;
    Outcome settle_outcome = Outcome::unknown;
    bool connected = false;
    bool has_model = false;

    bool ready() const { return connected && open_plan.value == 0; }
  };
  // Of the open round's plans, kept up to date with every answer: a cohort may have ten thousand of them.
  struct Tally {
    std::uint32_t planned = 0;
    std::uint32_t answers = 0;
    std::uint32_t failed = 0;
    std::uint32_t connected = 0;  // plans that wait for a device that is connected
    friend bool operator==(const Tally&, const Tally&) = default;
  };

  // machine.cpp
  DeviceProfile profile_of(const DeviceName& name, const Device& device) const;
  // Whatever makes a device ready or not goes through these three.
  void set_connected(Device& device, bool connected);
  void set_open_plan(Device& device, PlanId plan);
  void set_samples(Device& device, std::uint32_t samples);
  void on(const DeviceAccepted& e);
  void on(const DeviceLeft& e);
  void on(const TimerFired& e);
  void on(const Paused& e);
  void on(const Resumed& e);
  void on(const ProfileMeasured& e);
  void on(const EvaluationDone& e);
  void settle_pending(const DeviceAccepted& e);
  void resend_plan(const DeviceName& name, Device& device);
  void send_plan(const DeviceName& name, Device& device, const PlanRow& row);
  // planning.cpp
  void on(const PlansStored& e);
  void try_start_round();
  void wait_for_devices(std::size_t ready);
  void wait_because(const std::string& reason);
  void suspend(const Error& error, Timer retry);
  void lapse_overdue_plans();
  std::vector<DeviceProfile> eligible_devices() const;
  bool enough_devices(std::size_t eligible) const;
  Result<Grid> grid_for_round() const;
  double effective_step_size() const;
  void open_round();
  std::uint32_t answers_wanted_of(std::size_t planned) const;
  // answers.cpp
  void on(const UpdateArrived& e);
  void on(const SkipArrived& e);
  void on(const UpdateRefused& e);
  void on(const FoldDone& e);
  void refuse_plan(OpenPlan& plan, RefusalCode code, const std::string& detail);
  void fold(OpenPlan& plan);
  // closing.cpp
  void move(OpenPlan& plan, PlanState state);  // every change of a plan's state
  bool is_awaited(const OpenPlan& plan) const { return plan.in_this_round(round_) && plan.state == PlanState::sent; }
  Tally count_plans() const;
  void on(const Stepped& e);
  void on(const Committed& e);
  void maybe_close();
  void close_round();
  void step_when_folded();
  void note_empty_round();
  void commit_round(Version version);
  void settle_committed(const AnswerRow& answer);
  void after_commit();

  OpenPlan* find_plan(PlanId id);
  void act(Action action) { actions_.push_back(std::move(action)); }

  const RunSettings& settings_;
  const Planner& planner_;
  const UploadRule& rule_;

  Lineage lineage_;
  double divisor_ = 0.0;
  std::uint32_t round_ = 0;
  PlanId next_plan_{1};
  Version version_;
  std::uint64_t model_hash_ = 0;
  std::deque<RoundReport> history_;
  bool paused_ = false;
  bool lineage_may_change_ = true;

  Phase phase_ = Phase::waiting;
  Instant now_;
  Instant round_began_;
  std::optional<Instant> deadline_;
  Duration deadline_length_{};
  bool deadline_passed_ = false;
  std::uint32_t answers_wanted_ = 0;
  std::uint32_t usable_folds_ = 0;  // folded this round with a weight above zero
  std::optional<Commit> pending_commit_;
  std::optional<Stepped> stepped_;

  std::map<DeviceName, Device> devices_;
  std::size_t connected_ = 0;        // of devices_
  std::size_t ready_ = 0;            // of devices_: connected, without an open plan
  std::uint64_t samples_total_ = 0;  // of devices_
  std::map<PlanId, OpenPlan> plans_;
  Tally tally_;
  std::uint32_t folding_ = 0;  // of plans_
  std::string waiting_for_;
  bool waits_for_devices_ = false;  // and that was said
  std::uint64_t empty_in_a_row_ = 0;
  std::string suspension_;  // what was said of it: a full disk is tried often and told once
  Counters counters_;
  std::vector<Action> actions_;
};

}  // namespace gleaner::round
