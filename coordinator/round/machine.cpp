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
    set_samples(device, row.samples);
    set_open_plan(device, row.id);
    plans_[row.id].row = std::move(row);
  }
}

void Machine::set_connected(Device& device, bool connected) {
  if (device.connected == connected) return;
  const OpenPlan* plan = find_plan(device.open_plan);
  if (plan != nullptr && is_awaited(*plan)) tally_.connected += connected ? 1U : -1U;
  ready_ -= device.ready() ? 1 : 0;
  connected_ -= device.connected ? 1 : 0;
  device.connected = connected;
  connected_ += connected ? 1 : 0;
  ready_ += device.ready() ? 1 : 0;
}

void Machine::set_open_plan(Device& device, PlanId plan) {
  ready_ -= device.ready() ? 1 : 0;
  device.open_plan = plan;
  ready_ += device.ready() ? 1 : 0;
}

void Machine::set_samples(Device& device, std::uint32_t samples) {
  samples_total_ -= device.samples;
  device.samples = samples;
  samples_total_ += samples;
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
  const auto [entry, is_new] = devices_.try_emplace(e.device);
  auto& device = entry->second;
  if (is_new) device.planned_round = round_;
  set_connected(device, true);
  set_samples(device, e.samples);
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
  move(*plan, PlanState::refused);
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
  set_connected(it->second, false);
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
  auto& device = it->second;
  if (e.uplink_bytes_per_s > 0)
    device.uplink_bytes_per_s = update_rate(device.uplink_bytes_per_s, e.uplink_bytes_per_s);
  if (e.downlink_bytes_per_s > 0)
    device.downlink_bytes_per_s = update_rate(device.downlink_bytes_per_s, e.downlink_bytes_per_s);
  if (e.samples_per_s > 0) device.samples_per_s = update_rate(device.samples_per_s, e.samples_per_s);
}

void Machine::on(const EvaluationDone&) {}

DeviceProfile Machine::profile_of(const DeviceName& name, const Device& device) const {
  return {.name = name,
          .samples = device.samples,
          .uplink_bytes_per_s = device.uplink_bytes_per_s,
          .downlink_bytes_per_s = device.downlink_bytes_per_s,
          .samples_per_s = device.samples_per_s,
          .rounds_since_planned = round_ - std::min(round_, device.planned_round),
          .failures_in_a_row = device.failures_in_a_row};
}

std::optional<DeviceProfile> Machine::profile_of(const DeviceName& device) const {
  const auto it = devices_.find(device);
  return it == devices_.end() ? std::nullopt : std::optional(profile_of(it->first, it->second));
}

std::map<DeviceName, DeviceView> Machine::devices() const {
  std::map<DeviceName, DeviceView> views;
  for (const auto& [name, device] : devices_) {
    views[name] = {.connected = device.connected,
                   .samples = device.samples,
                   .open_plan = device.open_plan,
                   .profile = profile_of(name, device)};
  }
  return views;
}

}  // namespace gleaner::round
