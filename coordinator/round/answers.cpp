#include <fmt/format.h>

#include "coordinator/round/machine.hpp"

namespace gleaner::round {

void Machine::on(const UpdateArrived& e) {
  OpenPlan* plan = find_plan(e.plan);
  if (plan == nullptr || plan->row.device != e.device) {
    act(DropPayload{e.plan});
    act(SendRefused{e.device, e.plan, RefusalCode::stale_plan, "no open plan of this device has this number"});
    return;
  }
  if (plan->state != PlanState::sent) {
    act(DropPayload{e.plan});
    // The first answer counts; the same one again is answered as the first was.
    if (plan->state == PlanState::refused) {
      const RefusalCode before = plan->answer.refusal;
      if (before == RefusalCode::none) {
        act(SendRefused{e.device, e.plan, RefusalCode::stale_plan, "the plan was given up before its answer came"});
      } else {
        act(SendRefused{e.device, e.plan, before, "already answered"});
      }
    } else if (plan->answer.digest != e.digest) {
      act(SendRefused{e.device, e.plan, RefusalCode::wrong_digest, "another answer to this plan was accepted before"});
    } else {
      act(SendSettle{e.device, e.plan, Outcome::unknown, false});
    }
    return;
  }
  plan->answer = {.plan = e.plan,
                  .device = e.device,
                  .digest = e.digest,
                  .samples = e.samples,
                  .compute_ms = e.compute_ms,
                  .payload_bytes = e.payload_bytes,
                  .left = e.left,
                  .right = e.right,
                  .loss = e.loss};
  if (e.samples != plan->row.samples) {
    act(DropPayload{e.plan});
    refuse_plan(*plan, RefusalCode::wrong_weight,
                fmt::format("the update says {} samples, the device announced {}", e.samples, plan->row.samples));
  } else if (phase_ == Phase::collecting) {
    fold(*plan);
  } else {
    move(*plan, PlanState::deferred);
  }
  maybe_close();
  try_start_round();
}

void Machine::fold(OpenPlan& plan) {
  move(plan, PlanState::folding);
  act(Fold{plan.row.id, plan.row.device, plan.answer.samples, plan.row.entries_max});
}

void Machine::on(const SkipArrived& e) {
  OpenPlan* plan = find_plan(e.plan);
  if (plan == nullptr || plan->row.device != e.device) {
    act(SendRefused{e.device, e.plan, RefusalCode::stale_plan, "no open plan of this device has this number"});
    return;
  }
  if (plan->state != PlanState::sent) return;
  plan->answer = {.plan = e.plan,
                  .device = e.device,
                  .outcome = Outcome::skipped,
                  .samples = e.samples,
                  .compute_ms = e.compute_ms,
                  .left = e.left,
                  .right = e.right,
                  .loss = e.loss};
  move(*plan, PlanState::skipped);
  maybe_close();
}

void Machine::on(const UpdateRefused& e) {
  OpenPlan* plan = find_plan(e.plan);
  if (plan == nullptr || plan->row.device != e.device || plan->state != PlanState::sent) {
    act(SendRefused{e.device, e.plan, RefusalCode::stale_plan, "the plan is closed or answered"});
    return;
  }
  plan->answer = {.plan = e.plan, .device = e.device, .samples = plan->row.samples};
  refuse_plan(*plan, e.code, e.detail);
  maybe_close();
  try_start_round();
}

void Machine::on(const FoldDone& e) {
  OpenPlan* plan = find_plan(e.plan);
  if (plan == nullptr || plan->state != PlanState::folding) return;
  if (e.refusal) {
    refuse_plan(*plan, e.refusal->code(), e.refusal->detail());
  } else {
    move(*plan, PlanState::folded);
    plan->answer.outcome = Outcome::included;
    if (plan->answer.samples > 0) ++usable_folds_;
  }
  if (phase_ == Phase::collecting) {
    maybe_close();
  } else if (phase_ == Phase::closing) {
    step_when_folded();
  }
}

void Machine::refuse_plan(OpenPlan& plan, RefusalCode code, const std::string& detail) {
  move(plan, PlanState::refused);
  plan.answer.refusal = code;
  plan.answer.outcome = is_content_fault(code) ? Outcome::refused : Outcome::stale;
  act(SendRefused{plan.row.device, plan.row.id, code, detail});
}

}  // namespace gleaner::round
