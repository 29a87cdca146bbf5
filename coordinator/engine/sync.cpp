#include "common/check.hpp"
#include "coordinator/engine/run_engine.hpp"

namespace gleaner {

static_assert(static_cast<int>(CatchUpKind::snapshot) == static_cast<int>(SyncKind::snapshot));
static_assert(static_cast<int>(CatchUpKind::absolute) == static_cast<int>(SyncKind::absolute));
static_assert(static_cast<int>(CatchUpKind::patches) == static_cast<int>(SyncKind::patches));

std::shared_ptr<const Bytes> RunEngine::patches_since(Version held) const {
  auto bytes = std::make_shared<Bytes>();
  for (const auto& patch : patches_) {
    if (patch.row.version > held) append_patch(*bytes, patch.row.patch, patch.row.clip);
  }
  return bytes;
}

void RunEngine::perform(const round::SendPlan& action) {
  const Version base = action.plan.base;
  if (base.value == 0) return send_plan_with(action, {SyncKind::seeded, {}, nullptr, 0});
  if (action.has_model && action.holds == base) return send_plan_with(action, {SyncKind::none, base, nullptr, 0});
  if (sync_base_ != base) {
    syncs_.clear();
    sync_base_ = base;
  }
  const std::uint64_t key = action.has_model ? action.holds.value : kNoModel;
  auto& entry = syncs_[key];
  if (entry.ready) return send_plan_with(action, entry.sync);
  // Most often nothing is cheaper than the newest patch. One of nearly all entries is longer than the model, and
  // devices refuse what is: then there is a choice to make.
  const std::size_t model_bytes = sizeof(float) * settings_.spec.dimension;
  const bool one_behind = action.has_model && next(action.holds) == base && !patches_.empty() &&
                          patches_.back().row.version == base &&
                          patches_.back().row.patch.size() + kPatchHeadBytes <= model_bytes;
  if (one_behind) {
    entry = {.ready = true, .sync = {SyncKind::patches, action.holds, patches_since(action.holds), 0}, .waiting = {}};
    return send_plan_with(action, entry.sync);
  }
  entry.waiting.push_back({action, turn_of(action.device)});
  if (entry.waiting.size() == 1) choose_sync(key, action.has_model ? action.holds : Version{0}, action.has_model);
}

void RunEngine::choose_sync(std::uint64_t key, Version held, bool has_model) {
  // A device without a model makes version 0 from the seed: what changed since may be less than a snapshot.
  std::vector<std::uint64_t> sizes;
  for (const auto& patch : patches_) {
    if (patch.row.version > held) sizes.push_back(patch.row.patch.size());
  }
  auto patches = patches_since(held);
  needs_.executors.compute(
      [this, self = shared_from_this(), model = model_, base = sync_base_, key, held, has_model, sizes, patches] {
        const bool known = has_model || held.value == 0;
        CatchUp choice = choose_catch_up(model->model(), known ? std::optional(held) : std::nullopt, sizes);
        Sync sync{.kind = static_cast<SyncKind>(choice.kind), .from = held, .bytes = nullptr, .value_bytes = 0};
        switch (choice.kind) {
          case CatchUpKind::none:
          case CatchUpKind::seeded: break;
          case CatchUpKind::patches: sync.bytes = patches; break;
          case CatchUpKind::absolute:
            sync.bytes = std::make_shared<const Bytes>(std::move(choice.absolute));
            sync.value_bytes = sizeof(float) * model->model().absolute_entries_since(held);
            break;
          case CatchUpKind::snapshot:
            sync.bytes = std::make_shared<const Bytes>(snapshot_bytes(model->model().parameters()));
            sync.value_bytes = sync.bytes->size();
            break;
        }
        back([this, base, key, sync] {
          if (sync_base_ != base)
            return;  // a newer round overtook it; its plans are sent anew when the devices state what they hold
          auto& entry = syncs_[key];
          entry.ready = true;
          entry.sync = sync;
          for (const auto& [plan, turn] : std::exchange(entry.waiting, {})) {
            if (turn == turn_of(plan.device)) send_plan_with(plan, sync);
          }
        });
      });
}

void RunEngine::send_plan_with(const round::SendPlan& action, const Sync& sync) {
  const PlanRow& row = action.plan;
  Plan plan{.run = row_.id,
            .id = row.id,
            .round = row.round,
            .base = row.base,
            .base_hash = action.base_hash,
            .lineage = row_.lineage,
            .entries_max = row.entries_max,
            .steps_max = row.steps_max,
            .threshold = row.threshold,
            .settled_plan = action.settled_plan,
            .settled_outcome = action.settled_outcome,
            .sync = sync.kind,
            .sync_from = sync.from};
  plan.deadline_ms =
      static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(action.deadline).count());
  if (sync.bytes) count_sync(sync);
  failpoint("coordinator.plan.before_send");
  needs_.outbox->send_plan(action.device, plan, sync.bytes);
}

void RunEngine::count_sync(const Sync& sync) {
  if (sync.kind == SyncKind::patches) {
    for (const auto& patch : patches_) {
      if (patch.row.version <= sync.from) continue;
      open_traffic_.down_value_bytes += patch.split.value_bytes;
      open_traffic_.down_index_bytes += patch.split.index_bytes;
    }
  } else {
    open_traffic_.down_value_bytes += sync.value_bytes;
    open_traffic_.down_index_bytes += sync.bytes->size() - sync.value_bytes;
  }
}

}  // namespace gleaner
