#include <fmt/format.h>

#include <bit>

#include "common/check.hpp"
#include "coordinator/round/machine.hpp"
#include "scheduling/round_close.hpp"

namespace gleaner::round {

void Machine::move(OpenPlan& plan, PlanState state) {
  const bool counts = plan.in_this_round(round_);
  const auto count = [&](std::uint32_t change) {
    if (plan.state == PlanState::folding) folding_ += change;
    if (!counts) return;
    if (plan.state == PlanState::sent) {
      if (devices_.at(plan.row.device).connected) tally_.connected += change;
    } else if (plan.state == PlanState::refused) {
      tally_.failed += change;
    } else {
      tally_.answers += change;
    }
  };
  count(-1U);
  plan.state = state;
  count(1U);
}

Machine::Tally Machine::count_plans() const {
  Tally tally;
  for (const auto& [id, plan] : plans_) {
    if (!plan.in_this_round(round_)) continue;
    ++tally.planned;
    if (plan.state == PlanState::sent) {
      tally.connected += devices_.at(plan.row.device).connected ? 1 : 0;
    } else if (plan.state == PlanState::refused) {
      ++tally.failed;
    } else {
      ++tally.answers;
    }
  }
  return tally;
}

void Machine::maybe_close() {
  if (phase_ != Phase::collecting) return;
  RoundProgress progress{.planned = tally_.planned,
                         .answers = tally_.answers,
                         .failed = tally_.failed,
                         .connected = tally_.connected,
                         .answers_wanted = answers_wanted_,
                         .all_must_answer = settings_.spec.reproducible};
  progress.deadline = deadline_passed_ ? DeadlineState::passed
                      : deadline_      ? DeadlineState::running
                                       : DeadlineState::none;
  // Closed and abandoned rounds go the same way: without a usable update no step is made.
  if (judge_round(progress) != RoundVerdict::wait) close_round();
}

void Machine::close_round() {
  GLEANER_CHECK(tally_ == count_plans());
  phase_ = Phase::closing;
  if (deadline_) act(StopTimer{Timer::deadline});
  deadline_.reset();
  step_when_folded();
}

void Machine::step_when_folded() {
  if (folding_ > 0) return;
  if (usable_folds_ > 0) {
    phase_ = Phase::stepping;
    act(Step{});
    return;
  }
  note_empty_round();
  stepped_.reset();
  commit_round(Version{});
}

// Devices may be away for months: the first such round is said, then the second, the fourth, the eighth.
void Machine::note_empty_round() {
  ++empty_in_a_row_;
  if (!std::has_single_bit(empty_in_a_row_)) return;
  const std::string count = empty_in_a_row_ == 1 ? "" : fmt::format(", as the {} before it", empty_in_a_row_ - 1);
  act(Note{fmt::format("round {} closed without a usable update{}: the model stays at version {}", round_, count,
                       version_.value)});
}

void Machine::on(const Stepped& e) {
  if (phase_ != Phase::stepping) return;
  if (!e.error) {
    stepped_ = e;
    commit_round(e.version);
    return;
  }
  act(Note{fmt::format("round {} gives no usable model ({}): nothing of it is kept", round_, e.error->message()),
           true});
  for (auto& [id, plan] : plans_) {
    if (plan.state == PlanState::folded) plan.answer.outcome = Outcome::abandoned;
  }
  stepped_.reset();
  commit_round(Version{});
}

void Machine::commit_round(Version version) {
  Commit commit{.round = round_, .version = version, .duration = now_ - round_began_};
  for (auto& [id, plan] : plans_) {
    switch (plan.state) {
      case PlanState::folded:
        commit.late_uploads += plan.answer.outcome == Outcome::included && !plan.in_this_round(round_) ? 1 : 0;
        [[fallthrough]];
      case PlanState::skipped:
      case PlanState::refused: commit.answers.push_back(plan.answer); break;
      case PlanState::sent:
      case PlanState::deferred: {
        // After this commit the next round is round_ + 1; older plans than it allows are closed here.
        if (round_ + 1 - plan.row.round <= settings_.staleness_max) break;
        if (plan.state == PlanState::deferred) act(DropPayload{id});
        plan.answer.plan = id;
        plan.answer.device = plan.row.device;
        plan.answer.outcome = plan.state == PlanState::deferred ? Outcome::stale : Outcome::abandoned;
        commit.answers.push_back(plan.answer);
        break;
      }
      case PlanState::folding: GLEANER_CHECK(false); break;
    }
  }
  phase_ = Phase::committing;
  pending_commit_ = commit;
  act(std::move(commit));
}

void Machine::on(const Committed& e) {
  if (phase_ != Phase::committing) return;
  if (e.error) {
    // The accumulator and the answers are kept; nobody is told "included" until the record is on disk.
    phase_ = Phase::suspended;
    suspend(*e.error, Timer::storage_retry);
    return;
  }
  GLEANER_CHECK(pending_commit_.has_value());
  waiting_for_.clear();
  suspension_.clear();
  RoundReport report{.step_squared_norm = stepped_ ? stepped_->step_squared_norm : 0.0, .left_sides = {}};
  std::map<DeviceName, double> left_sides;
  for (const auto& answer : pending_commit_->answers) {
    if (answer.outcome == Outcome::included || answer.outcome == Outcome::skipped)
      left_sides[answer.device] = answer.left;
  }
  for (const auto& [name, left] : left_sides) report.left_sides.push_back(left);
  history_.push_back(std::move(report));
  while (history_.size() > 64) history_.pop_front();
  if (stepped_) {
    if (empty_in_a_row_ > 1)
      act(Note{fmt::format("round {} made a version, the first after {} without", round_, empty_in_a_row_)});
    empty_in_a_row_ = 0;
    version_ = stepped_->version;
    model_hash_ = stepped_->model_hash;
  } else {
    ++counters_.empty_rounds;
  }
  counters_.late_uploads += pending_commit_->late_uploads;
  for (const auto& answer : pending_commit_->answers) settle_committed(answer);
  after_commit();
}

void Machine::settle_committed(const AnswerRow& answer) {
  const auto it = plans_.find(answer.plan);
  GLEANER_CHECK(it != plans_.end());
  auto& device = devices_.at(answer.device);
  set_open_plan(device, {});
  device.failures_in_a_row = 0;
  switch (answer.outcome) {
    case Outcome::included: ++counters_.uploads; break;
    case Outcome::skipped: ++counters_.skips; break;
    case Outcome::refused: ++counters_.refusals; break;
    case Outcome::abandoned:
    case Outcome::stale:
      ++counters_.lapsed_plans;
      ++device.failures_in_a_row;
      break;
    default: break;
  }
  if (answer.outcome != Outcome::skipped) {
    device.to_settle = answer.plan;
    device.settle_outcome = answer.outcome;
  }
  plans_.erase(it);
}

void Machine::after_commit() {
  const bool stepped = stepped_.has_value();
  pending_commit_.reset();
  stepped_.reset();
  const bool last = version_.value >= settings_.rounds;
  if (stepped && (last || version_.value % std::max<std::uint32_t>(1, settings_.evaluate_every) == 0))
    act(Evaluate{version_});
  if (last) {
    phase_ = Phase::finished;
    act(Finish{});
    return;
  }
  phase_ = Phase::waiting;
  try_start_round();
}

}  // namespace gleaner::round
