#include "coordinator/round/machine.hpp"

#include <fmt/format.h>

#include "common/check.hpp"

namespace gleaner::round {

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::waiting: return "waiting";
    case Phase::issuing: return "issuing";
    case Phase::collecting: return "collecting";
    case Phase::closing: return "closing";
    case Phase::stepping: return "stepping";
    case Phase::committing: return "committing";
    case Phase::suspended: return "suspended";
    case Phase::finished: return "finished";
  }
  return "unknown";
}

Machine::Machine(const RunSettings& settings, Start start, const Planner& planner, const UploadRule& rule)
    : settings_(settings),
      planner_(planner),
      rule_(rule),
      lineage_(start.lineage),
      divisor_(start.divisor),
      round_(start.rounds_done),
      next_plan_(start.next_plan),
      version_(start.version),
      model_hash_(start.model_hash),
      history_(std::move(start.history)),
      paused_(start.paused),
      lineage_may_change_(start.lineage_may_change),
      counters_(start.counters) {
  for (auto& row : start.open_plans) {
    auto& device = devices_[row.device];
    device.samples = row.samples;
    device.open_plan = row.id;
    device.profile.name = row.device;
    plans_[row.id].row = std::move(row);
  }
}

std::vector<Action> Machine::begin(Instant now) {
  now_ = now;
  for (auto& [id, plan] : plans_) plan.issued = now;
  if (version_.value >= settings_.rounds) {
    phase_ = Phase::finished;
    act(Finish{});
    return std::exchange(actions_, {});
  }
  // An open round resumes with its own plans; its deadline starts again.
  std::size_t resumed = 0;
  for (const auto& [id, plan] : plans_) resumed += plan.row.round == round_ + 1 ? 1 : 0;
  if (resumed > 0) {
    ++round_;
    answers_wanted_ = answers_wanted_of(resumed);
    deadline_length_ = settings_.spec.reproducible ? Duration{} : settings_.planning.deadline;
    act(Note{fmt::format("round {} resumes with {} open plans", round_, resumed)});
    open_round();
  } else {
    try_start_round();
  }
  return std::exchange(actions_, {});
}

std::vector<Action> Machine::handle(const Event& event, Instant now) {
  now_ = now;
  if (phase_ != Phase::finished) {
    std::visit([this](const auto& e) { on(e); }, event);
  } else if (const auto* accepted = std::get_if<DeviceAccepted>(&event)) {
    settle_pending(*accepted);
  }
  return std::exchange(actions_, {});
}

Machine::OpenPlan* Machine::find_plan(PlanId id) {
  const auto it = plans_.find(id);
  return it == plans_.end() ? nullptr : &it->second;
}

void Machine::on(const DeviceAccepted& e) {
  auto& device = devices_[e.device];
  device.connected = true;
  device.samples = e.samples;
  device.profile.name = e.device;
  device.profile.samples = e.samples;
  const bool same_lineage = e.has_model && e.lineage == lineage_;
  if (same_lineage && e.version > version_ && lineage_may_change_) {
    // Devices are never ahead of the database unless it was restored from an older copy.
    lineage_may_change_ = false;
    act(ChangeLineage{
        fmt::format("device {} holds version {} of a run that is at version {}: the database is older than its devices",
                    e.device.value, e.version.value, version_.value)});
  }
  device.has_model = same_lineage && e.version <= version_ && e.base_hash != 0 && e.base_hash == e.model_hash;
  device.holds = device.has_model ? e.version : Version{};
  settle_pending(e);
  device.to_settle = {};
  if (device.open_plan.value != 0 && device.open_plan != e.pending_plan) resend_plan(e.device, device);
  try_start_round();
}

void Machine::settle_pending(const DeviceAccepted& e) {
  if (e.pending_plan.value == 0) return;
  const auto tell = [&](Outcome outcome, bool resend) { act(SendSettle{e.device, e.pending_plan, outcome, resend}); };
  if (e.lineage != lineage_) return tell(Outcome::abandoned, false);
  if (const OpenPlan* plan = find_plan(e.pending_plan); plan != nullptr && plan->row.device == e.device) {
    switch (plan->state) {
      case PlanState::sent: return tell(Outcome::unknown, true);
      case PlanState::deferred:
      case PlanState::folding:
      case PlanState::folded:
        return tell(plan->answer.digest == e.pending_digest ? Outcome::unknown : Outcome::abandoned, false);
      case PlanState::skipped: return tell(Outcome::abandoned, false);
      case PlanState::refused: return tell(plan->answer.outcome, false);
    }
  }
  if (!e.stored) return tell(Outcome::abandoned, false);
  const bool other_answer = e.stored->digest != e.pending_digest;
  tell(other_answer || e.stored->outcome == Outcome::skipped ? Outcome::abandoned : e.stored->outcome, false);
}

void Machine::resend_plan(const DeviceName& name, Device& device) {
  OpenPlan* plan = find_plan(device.open_plan);
  GLEANER_CHECK(plan != nullptr);
  if (plan->state != PlanState::sent) return;
  if (plan->row.base == version_ && phase_ != Phase::issuing) {
    send_plan(name, device, plan->row);
    return;
  }
  if (plan->row.base == version_) return;  // not stored yet: sent when it is
  // Its base is gone and it was not trained as far as the device says: nothing can come of it any more.
  plan->state = PlanState::refused;
  plan->answer = {.plan = plan->row.id, .device = name, .outcome = Outcome::abandoned};
  maybe_close();
}

void Machine::send_plan(const DeviceName& name, Device& device, const PlanRow& row) {
  SendPlan send{.device = name, .plan = row, .base_hash = model_hash_};
  if (deadline_ && row.round == round_)
    send.deadline = std::max(*deadline_ - now_, Duration(std::chrono::milliseconds(1)));
  send.settled_plan = device.to_settle;
  send.settled_outcome = device.to_settle.value == 0 ? Outcome::unknown : device.settle_outcome;
  send.has_model = device.has_model;
  send.holds = device.holds;
  act(std::move(send));
  device.has_model = true;  // once the plan is applied; a reconnect states it anew
  device.holds = row.base;
}

void Machine::on(const DeviceLeft& e) {
  const auto it = devices_.find(e.device);
  if (it == devices_.end()) return;
  it->second.connected = false;
  // A device that never held a plan leaves no trace in the population.
  maybe_close();
}

void Machine::on(const TimerFired& e) {
  switch (e.timer) {
    case Timer::deadline:
      deadline_passed_ = true;
      maybe_close();
      return;
    case Timer::storage_retry:
      if (phase_ != Phase::suspended) return;
      GLEANER_CHECK(pending_commit_.has_value());
      phase_ = Phase::committing;
      act(*pending_commit_);
      return;
    case Timer::planning_retry: try_start_round(); return;
  }
}

void Machine::on(const Paused&) { paused_ = true; }

void Machine::on(const Resumed&) {
  paused_ = false;
  try_start_round();
}

void Machine::on(const ProfileMeasured& e) {
  const auto it = devices_.find(e.device);
  if (it == devices_.end()) return;
  auto& profile = it->second.profile;
  if (e.uplink_bytes_per_s > 0)
    profile.uplink_bytes_per_s = update_rate(profile.uplink_bytes_per_s, e.uplink_bytes_per_s);
  if (e.downlink_bytes_per_s > 0)
    profile.downlink_bytes_per_s = update_rate(profile.downlink_bytes_per_s, e.downlink_bytes_per_s);
  if (e.samples_per_s > 0) profile.samples_per_s = update_rate(profile.samples_per_s, e.samples_per_s);
}

void Machine::on(const EvaluationDone&) {}

const DeviceProfile* Machine::profile_of(const DeviceName& device) const {
  const auto it = devices_.find(device);
  return it == devices_.end() ? nullptr : &it->second.profile;
}

std::map<DeviceName, DeviceView> Machine::devices() const {
  std::map<DeviceName, DeviceView> views;
  for (const auto& [name, device] : devices_) {
    views[name] = {.connected = device.connected,
                   .samples = device.samples,
                   .open_plan = device.open_plan,
                   .profile = device.profile};
  }
  return views;
}

}  // namespace gleaner::round
