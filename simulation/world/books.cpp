#include "simulation/world/books.hpp"

#include <fmt/format.h>

#include <cmath>

#include "client/engine/device_run.hpp"
#include "common/check.hpp"
#include "coordinator/engine/model_owner.hpp"

namespace gleaner::simulation {

Books::Books(const RunSettings& settings) : settings_(settings) {
  const auto rule = make_upload_rule(settings.spec.upload_rule, {});
  const auto model = model_of(settings);
  GLEANER_CHECK(rule.has_value() && model.has_value());
  applies_ = memory_kind_of(settings.spec, **rule) == MemoryKind::residual;
  grouping_ = upload_grouping(settings.spec, tensor_grouping(*model));
}

void Books::answered(std::uint32_t device, std::span<const float> update, const session::Answer& answer) {
  if (!applies_) return;
  Entry entry{.update = {update.begin(), update.end()}, .plan = answer.plan, .digest = answer.digest, .sent = {}};
  if (answer.send) {
    const PayloadLimits limits{.entries_max = settings_.spec.dimension,
                               .clip = std::ldexp(1.0F, settings_.spec.clip_exponent)};
    auto decoded = decode_payload(*answer.payload, grouping_, limits);
    GLEANER_CHECK(decoded.has_value());
    entry.sent = std::move(*decoded);
  }
  entries_[device].push_back(std::move(entry));
}

Status Books::replay(const Entry& entry, std::vector<float>& residual, Database& database, RunId run,
                     std::optional<SparseVector>& in_flight) {
  for (std::size_t i = 0; i < residual.size(); ++i) residual[i] += entry.update[i];
  if (entry.sent.indices.empty()) return {};
  for (std::size_t i = 0; i < entry.sent.indices.size(); ++i) residual[entry.sent.indices[i]] -= entry.sent.values[i];
  GLEANER_ASSIGN(const auto stored, database.outcome_of(run, entry.plan));
  if (!stored) {
    in_flight = entry.sent;
    return {};
  }
  const bool this_one = stored->digest == entry.digest;
  if (this_one && stored->outcome == Outcome::included) {
    ++included_;
    return {};
  }
  for (std::size_t i = 0; i < entry.sent.indices.size(); ++i) residual[entry.sent.indices[i]] += entry.sent.values[i];
  return {};
}

Status Books::check(std::uint32_t device, ByteView state, Database& database, RunId run) {
  const auto entries = entries_.find(device);
  if (!applies_ || entries == entries_.end()) return {};
  RunSpec spec = settings_.spec;
  GLEANER_ASSIGN(auto kept, device_state_from(state, run, MemoryKind::residual, spec.dimension));
  std::vector<float> residual(spec.dimension);
  std::optional<SparseVector> in_flight;
  for (const Entry& entry : entries->second) {
    in_flight.reset();
    GLEANER_TRY(replay(entry, residual, database, run, in_flight));
  }
  // What the device was not told yet: it settles the same way when it asks.
  if (kept.memory->pending() && !in_flight) {
    GLEANER_ASSIGN(const auto stored, database.outcome_of(run, kept.answer->plan));
    if (!stored)
      return fail(ErrorCode::fatal,
                  fmt::format("device {} waits for plan {}, which nobody knows", device, kept.answer->plan.value));
    const bool this_one = stored->digest == kept.answer->digest;
    kept.memory->settle(this_one ? stored->outcome : Outcome::abandoned);
  }
  const auto holds = kept.memory->state();
  for (std::size_t i = 0; i < residual.size(); ++i) {
    if (holds[i] == residual[i]) continue;
    return fail(ErrorCode::fatal,
                fmt::format("mass is not conserved: device {} holds {} at coordinate {}, its updates less what was "
                            "included leave {}",
                            device, holds[i], i, residual[i]));
  }
  return {};
}

}  // namespace gleaner::simulation
