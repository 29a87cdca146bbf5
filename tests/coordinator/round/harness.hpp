#pragma once
// Drives a round machine by hand: answers what a healthy owner would answer at once, and keeps the rest for the test to
// see.

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/round/machine.hpp"

namespace gleaner::round {

// Everybody eligible, the recipe's k, the settings' quorum and deadline.
class EverybodyPlanner final : public Planner {
 public:
  std::string_view name() const override { return "everybody"; }
  Result<RoundPlan> plan(const PlannerSettings& settings, std::uint32_t,
                         std::vector<DeviceProfile> eligible) const override {
    std::sort(eligible.begin(), eligible.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    RoundPlan plan{.devices = {}, .answers_wanted = 0, .deadline = settings.deadline};
    for (const auto& profile : eligible)
      plan.devices.push_back({.name = profile.name, .entries_max = 10, .limited_by = "recipe"});
    const double wanted = settings.quorum * static_cast<double>(plan.devices.size());
    plan.answers_wanted = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(wanted + 0.999));
    return plan;
  }
};

class AlwaysRule final : public UploadRule {
 public:
  MemoryKind memory() const override { return MemoryKind::residual; }
  RuleState state() const override { return RuleState::none; }
  Result<Decision> decide(const RuleInput&) const override { return Decision{}; }
  float next_threshold(const std::deque<RoundReport>& rounds, double) const override {
    return static_cast<float>(rounds.size());
  }
};

inline RunSettings test_settings() {
  RunSettings settings;
  settings.spec.dimension = 100;
  settings.spec.learning_rate = 0.1F;
  settings.rounds = 3;
  settings.planning.min_devices = 1;
  settings.planning.quorum = 1.0;
  settings.planning.deadline = std::chrono::seconds(60);
  return settings;
}

class Harness {
 public:
  explicit Harness(RunSettings settings = test_settings(), Start start = {}) : settings_(std::move(settings)) {
    if (start.lineage.value == 0) start.lineage = {7};
    if (start.model_hash == 0) start.model_hash = hash_of_version(start.version);
    version_ = start.version;
    machine_.emplace(settings_, std::move(start), planner_, rule_);
    take(machine_->begin(now_));
  }

  static std::uint64_t hash_of_version(Version v) { return 1000 + v.value; }

  void send(const Event& event) { take(machine_->handle(event, now_)); }
  void advance(Duration d) { now_ = now_ + d; }

  void join(const std::string& name, std::uint32_t samples = 10) {
    send(DeviceAccepted{.device = {name}, .samples = samples, .has_model = false, .lineage = {7}});
  }
  void leave(const std::string& name) { send(DeviceLeft{{name}}); }
  PlanId plan_of(const std::string& name) const { return machine_->devices().at({name}).open_plan; }
  void update(const std::string& name, std::uint64_t digest = 1, std::uint32_t samples = 10) {
    send(UpdateArrived{.device = {name}, .plan = plan_of(name), .digest = {digest}, .samples = samples, .left = 1.0F});
  }
  void skip(const std::string& name) {
    send(SkipArrived{.device = {name}, .plan = plan_of(name), .samples = 10, .left = 0.5F});
  }
  void fire(Timer timer) { send(TimerFired{timer}); }

  // All actions of one kind seen so far, oldest first.
  template <class A>
  std::vector<A> seen() const {
    std::vector<A> found;
    for (const auto& action : log_) {
      if (const auto* a = std::get_if<A>(&action)) found.push_back(*a);
    }
    return found;
  }
  template <class A>
  std::size_t count() const {
    return seen<A>().size();
  }
  void forget() { log_.clear(); }

  Machine& machine() { return *machine_; }
  std::vector<std::string> storage_errors;             // taken one a store or commit; "" = fine
  std::vector<std::pair<PlanId, RefusalCode>> refuse;  // folds of these plans fail
  bool answer_folds = true;
  bool answer_stores = true;
  std::optional<std::string> step_error;

  std::optional<Error> next_storage_error() {
    if (storage_errors.empty()) return std::nullopt;
    const std::string text = storage_errors.front();
    storage_errors.erase(storage_errors.begin());
    return text.empty() ? std::nullopt : std::optional(Error(ErrorCode::no_space, text));
  }
  void finish_fold(PlanId plan) {
    for (const auto& [refused, code] : refuse) {
      if (refused == plan) return send(FoldDone{plan, Refusal(code, "made up")});
    }
    send(FoldDone{plan, std::nullopt});
  }

 private:
  void take(std::vector<Action> actions) {
    for (auto& action : actions) {
      log_.push_back(action);
      todo_.push_back(std::move(action));
    }
    if (busy_) return;
    busy_ = true;
    while (!todo_.empty()) {
      const Action action = std::move(todo_.front());
      todo_.pop_front();
      answer(action);
    }
    busy_ = false;
  }
  void answer(const Action& action) {
    if (std::holds_alternative<StorePlans>(action) && answer_stores) send(PlansStored{next_storage_error()});
    if (const auto* fold = std::get_if<Fold>(&action); fold != nullptr && answer_folds) finish_fold(fold->plan);
    if (std::holds_alternative<Step>(action)) {
      if (step_error) return send(Stepped{.error = Error(ErrorCode::bad_input, *step_error)});
      send(Stepped{.version = next(version_), .model_hash = hash_of_version(next(version_)), .step_squared_norm = 1.0});
    }
    if (const auto* commit = std::get_if<Commit>(&action)) {
      auto error = next_storage_error();
      if (!error && commit->version.value != 0) version_ = commit->version;
      send(Committed{std::move(error)});
    }
  }

  RunSettings settings_;
  EverybodyPlanner planner_;
  AlwaysRule rule_;
  Version version_;
  Instant now_{std::chrono::seconds(1)};
  std::optional<Machine> machine_;
  std::vector<Action> log_;
  std::deque<Action> todo_;
  bool busy_ = false;
};

}  // namespace gleaner::round
