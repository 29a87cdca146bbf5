#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/check.hpp"
#include "coordinator/round/machine.hpp"

namespace gleaner::round {

std::vector<DeviceProfile> Machine::eligible_devices() const {
  std::vector<DeviceProfile> eligible;
  eligible.reserve(ready_);
  for (const auto& [name, device] : devices_) {
    if (device.ready()) eligible.push_back(profile_of(name, device));
  }
  GLEANER_CHECK(eligible.size() == ready_);
  return eligible;
}

bool Machine::enough_devices(std::size_t eligible) const {
  const auto& planning = settings_.planning;
  const std::size_t least = std::max<std::size_t>(1, planning.min_devices);
  if (!settings_.spec.reproducible) return eligible >= least;
  // The cohort must not depend on who happens to be connected: everybody known takes part in the draw.
  return eligible >= std::max<std::size_t>(least, planning.cohort_size) && eligible == devices_.size();
}

std::uint32_t Machine::answers_wanted_of(std::size_t planned) const {
  const auto all = static_cast<std::uint32_t>(planned);
  if (settings_.spec.reproducible || settings_.planning.deadline == Duration{}) return all;
  const std::uint32_t cohort =
      settings_.planning.cohort_size == 0 ? all : std::min(all, settings_.planning.cohort_size);
  const auto wanted = static_cast<std::uint32_t>(std::ceil(settings_.planning.quorum * cohort - 1e-9));
  return std::clamp<std::uint32_t>(wanted, 1, std::max<std::uint32_t>(all, 1));
}

Result<Grid> Machine::grid_for_round() const {
  // Everybody whose update could still be folded: each device has at most one open plan.
  std::uint64_t weight = samples_total_;
  for (const auto& [id, plan] : plans_) {
    // A device that states another sample count later is still answered for what its plan says.
    const auto& device = devices_.at(plan.row.device);
    if (device.open_plan == id) weight += plan.row.samples - std::min(plan.row.samples, device.samples);
  }
  return make_grid(settings_.spec.clip_exponent, std::max<std::uint64_t>(weight, 1));
}

void Machine::wait_for_devices(std::size_t ready) {
  std::size_t needed = std::max<std::size_t>(1, settings_.planning.min_devices);
  if (settings_.spec.reproducible)
    needed = std::max({needed, std::size_t{settings_.planning.cohort_size}, devices_.size()});
  waiting_for_ = fmt::format("waiting for devices: {} ready, {} needed", ready, needed);
  // Once, and not with every one of thousands that come.
  if (!std::exchange(waits_for_devices_, true)) act(Note{waiting_for_});
  if (!plans_.empty() && settings_.planning.deadline > Duration{})
    act(StartTimer{Timer::planning_retry, settings_.planning.deadline});
}

void Machine::wait_because(const std::string& reason) {
  if (reason != waiting_for_) act(Note{reason, true});
  waiting_for_ = reason;
  waits_for_devices_ = false;
  act(StartTimer{Timer::planning_retry, std::chrono::seconds(5)});
}

void Machine::suspend(const Error& error, Timer retry) {
  waiting_for_ = "suspended: " + error.message();
  if (waiting_for_ != suspension_) act(Note{waiting_for_, true});
  suspension_ = waiting_for_;
  act(StartTimer{retry, std::chrono::seconds(5)});
}

void Machine::lapse_overdue_plans() {
  // Rounds close plans by their number; while no round can start, time does, or silent devices would block the run for
  // ever.
  if (settings_.spec.reproducible || settings_.planning.deadline <= Duration{}) return;
  const Duration patience = settings_.planning.deadline * (settings_.staleness_max + 1);
  for (auto& [id, plan] : plans_) {
    if (plan.state != PlanState::sent || now_ - plan.issued < patience) continue;
    move(plan, PlanState::refused);
    plan.answer = {.plan = id, .device = plan.row.device, .outcome = Outcome::abandoned};
  }
}

double Machine::effective_step_size() const {
  // One round moves the model by the sum of its local steps: that is the step size that rules on gradients divide by.
  const double mean =
      devices_.empty() ? 0.0 : static_cast<double>(samples_total_) / static_cast<double>(devices_.size());
  const double steps = mean / std::max(1U, settings_.spec.batch_size) * settings_.spec.local_epochs;
  return double{settings_.spec.learning_rate} * std::max(1.0, steps);
}

void Machine::try_start_round() {
  if (phase_ != Phase::waiting || paused_ || version_.value >= settings_.rounds) return;
  lapse_overdue_plans();
  std::size_t deferred = 0;
  bool to_settle = false;  // answered or given up, waiting for a record to stand in
  for (const auto& [id, plan] : plans_) {
    deferred += plan.state == PlanState::deferred ? 1 : 0;
    to_settle = to_settle || plan.state == PlanState::refused || plan.state == PlanState::skipped;
  }
  const bool enough = enough_devices(ready_ + (settings_.spec.reproducible ? 0 : deferred));
  if (!enough && !to_settle) return wait_for_devices(ready_);
  auto eligible = enough ? eligible_devices() : std::vector<DeviceProfile>{};
  const auto grid = grid_for_round();
  if (!grid) return wait_because(grid.error().message());
  RoundPlan plan;
  if (!eligible.empty()) {
    // Late updates that wait count for the round that they enter.
    PlannerSettings planning = settings_.planning;
    const auto late = static_cast<std::uint32_t>(deferred);
    planning.min_devices = planning.min_devices > late + 1 ? planning.min_devices - late : 1;
    auto planned = planner_.plan(planning, round_ + 1, std::move(eligible));
    if (!planned) return wait_because(planned.error().message());
    plan = std::move(*planned);
  }
  waiting_for_.clear();
  if (empty_in_a_row_ == 0) waits_for_devices_ = false;
  ++round_;
  answers_wanted_ = plan.devices.empty() ? 0 : plan.answers_wanted;
  deadline_length_ = plan.deadline;

  const float threshold = rule_.next_threshold(history_, effective_step_size());
  StorePlans store;
  std::uint64_t planned_weight = 0;
  for (const auto& chosen : plan.devices) {
    auto& device = devices_.at(chosen.name);
    PlanRow row{.id = next_plan_,
                .device = chosen.name,
                .round = round_,
                .base = version_,
                .entries_max = chosen.entries_max,
                .steps_max = chosen.steps_max,
                .threshold = threshold,
                .clip_exponent = grid->clip_exponent,
                .weight_bits = grid->weight_bits,
                .samples = device.samples};
    next_plan_ = {next_plan_.value + 1};
    set_open_plan(device, row.id);
    device.planned_round = round_;
    planned_weight += device.samples;
    plans_[row.id] = {.row = row, .issued = now_};
    store.plans.push_back(std::move(row));
  }
  if (settings_.fixed_divisor && divisor_ == 0.0)
    divisor_ = static_cast<double>(std::max<std::uint64_t>(planned_weight, 1));
  store.divisor = divisor_;
  phase_ = Phase::issuing;
  act(std::move(store));
}

void Machine::on(const PlansStored& e) {
  if (phase_ != Phase::issuing) return;
  if (e.error) {
    // Nothing was sent: the plans never existed. Their ids are not used again.
    std::erase_if(plans_, [this](const auto& entry) {
      const bool unsent = entry.second.row.round == round_;
      if (unsent) set_open_plan(devices_.at(entry.second.row.device), {});
      return unsent;
    });
    --round_;
    phase_ = Phase::waiting;
    suspend(*e.error, Timer::planning_retry);
    return;
  }
  suspension_.clear();
  open_round();
  for (auto& [id, plan] : plans_) {
    auto& device = devices_.at(plan.row.device);
    if (plan.in_this_round(round_) && device.connected) send_plan(plan.row.device, device, plan.row);
  }
  maybe_close();
}

void Machine::open_round() {
  phase_ = Phase::collecting;
  round_began_ = now_;
  deadline_passed_ = false;
  usable_folds_ = 0;
  tally_ = count_plans();
  deadline_.reset();
  // The stored plans say which grid they were promised; late updates share it.
  Result<Grid> grid = grid_for_round();
  for (const auto& [id, plan] : plans_) {
    if (plan.in_this_round(round_)) grid = Grid{plan.row.clip_exponent, plan.row.weight_bits};
  }
  GLEANER_CHECK(grid.has_value());  // rounds only open on a grid that was made
  act(BeginRound{round_, *grid});
  if (deadline_length_ > Duration{}) {
    deadline_ = now_ + deadline_length_;
    act(StartTimer{Timer::deadline, deadline_length_});
  }
  for (auto& [id, plan] : plans_) {
    if (plan.state == PlanState::deferred) fold(plan);
  }
}

}  // namespace gleaner::round
