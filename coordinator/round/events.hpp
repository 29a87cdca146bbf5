#pragma once
// What happens to a run, and what the run wants done: the whole interface of the round machine. Plain data, no I/O.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "aggregation/grid.hpp"
#include "common/clock.hpp"
#include "common/ids.hpp"
#include "common/refusal.hpp"
#include "storage/database.hpp"

namespace gleaner::round {

// ---- Events: facts, in the order in which the owner learned them.

// A device agreed to take part (again after each reconnect). stored is what the log says of its pending plan.
struct DeviceAccepted {
  DeviceName device;
  std::uint32_t samples = 0;
  bool has_model = false;
  Lineage lineage;
  Version version;
  std::uint64_t model_hash = 0;
  PlanId pending_plan;
  Digest pending_digest;
  std::optional<StoredOutcome> stored;
  std::uint64_t base_hash = 0;  // the coordinator's hash of `version`, 0 when it no longer knows
};
struct DeviceLeft {
  DeviceName device;
};
// A whole payload is held by the owner under its plan id; it is folded or dropped by an action.
struct UpdateArrived {
  DeviceName device;
  PlanId plan;
  Digest digest;
  std::uint32_t samples = 0;
  std::uint32_t compute_ms = 0;
  std::uint32_t payload_bytes = 0;
  float left = 0.0F;
  float right = 0.0F;
  float loss = 0.0F;
};
struct SkipArrived {
  DeviceName device;
  PlanId plan;
  std::uint32_t samples = 0;
  std::uint32_t compute_ms = 0;
  float left = 0.0F;
  float right = 0.0F;
  float loss = 0.0F;
};
// Refused before its payload was whole: too long, or not what its digest says. The device was told.
struct UpdateRefused {
  DeviceName device;
  PlanId plan;
  RefusalCode code = RefusalCode::none;
  std::string detail;
};
struct FoldDone {
  PlanId plan;
  std::optional<Refusal> refusal;  // nothing of a refused payload was folded
};
struct PlansStored {
  std::optional<Error> error;
};
struct Stepped {
  std::optional<Error> error;  // the sum was unusable: the round ends without a version
  Version version;
  std::uint64_t model_hash = 0;
  double step_squared_norm = 0.0;
};
struct Committed {
  std::optional<Error> error;
};
struct EvaluationDone {
  Version version;
};
enum class Timer : std::uint8_t { deadline = 1, storage_retry = 2, planning_retry = 3 };
struct TimerFired {
  Timer timer = Timer::deadline;
};
struct Paused {};
struct Resumed {};
struct ProfileMeasured {
  DeviceName device;
  double uplink_bytes_per_s = 0.0;
  double downlink_bytes_per_s = 0.0;
  double samples_per_s = 0.0;
};

using Event = std::variant<DeviceAccepted, DeviceLeft, UpdateArrived, SkipArrived, UpdateRefused, FoldDone, PlansStored,
                           Stepped, Committed, EvaluationDone, TimerFired, Paused, Resumed, ProfileMeasured>;

// ---- Actions: done by the owner in this order; those with an answer come back as an event.

struct StorePlans {  // -> PlansStored
  std::vector<PlanRow> plans;
  double divisor = 0.0;  // fixed with these plans
};
struct BeginRound {  // empties the accumulator
  std::uint32_t round = 0;
  Grid grid;
};
struct SendPlan {
  DeviceName device;
  PlanRow plan;
  std::uint64_t base_hash = 0;
  Duration deadline{};  // left of the round; 0 = none
  PlanId settled_plan;
  Outcome settled_outcome = Outcome::unknown;
  bool has_model = false;  // what the device holds, to choose the sync from
  Version holds;
};
struct SendSettle {
  DeviceName device;
  PlanId plan;
  Outcome outcome = Outcome::unknown;
  bool resend = false;
};
struct SendRefused {
  DeviceName device;
  PlanId plan;
  RefusalCode code = RefusalCode::none;
  std::string detail;
};
struct Fold {  // -> FoldDone
  PlanId plan;
  DeviceName device;
  std::uint32_t weight = 0;
  std::uint32_t entries_max = 0;
};
struct DropPayload {
  PlanId plan;
};
struct Step {};  // -> Stepped
struct Commit {  // -> Committed; the owner adds aggregate, patch and traffic. version 0: no new version
  std::uint32_t round = 0;
  Version version;
  std::vector<AnswerRow> answers;
  std::uint32_t late_uploads = 0;  // of the included ones, those of earlier rounds' plans
  Duration duration{};
};
struct Evaluate {  // -> EvaluationDone
  Version version;
};
struct StartTimer {
  Timer timer = Timer::deadline;
  Duration after{};
};
struct StopTimer {
  Timer timer = Timer::deadline;
};
struct ChangeLineage {  // a restored database: devices are ahead of it
  std::string reason;
};
struct Note {  // for the log and `gleaner run show`: what the run waits for
  std::string text;
  bool warning = false;
};
struct Finish {};

using Action = std::variant<StorePlans, BeginRound, SendPlan, SendSettle, SendRefused, Fold, DropPayload, Step, Commit,
                            Evaluate, StartTimer, StopTimer, ChangeLineage, Note, Finish>;

}  // namespace gleaner::round
