#include "common/check.hpp"
#include "common/log.hpp"
#include "common/text.hpp"
#include "coordinator/engine/run_engine.hpp"
#include "coordinator/engine/stored_model.hpp"

namespace gleaner {

namespace {
constexpr std::size_t kPieceBytes = 4U << 20;  // of a snapshot; what one row of the database takes
}

Result<std::shared_ptr<RunEngine>> RunEngine::make(const RunRow& row, RunSettings settings, Needs needs) {
  std::shared_ptr<RunEngine> engine(new RunEngine(row, std::move(settings), std::move(needs)));
  if (const Status recovered = engine->recover(); !recovered) return fail(recovered.error().within("run " + row.name));
  return engine;
}

Status RunEngine::recover() {
  GLEANER_ASSIGN(planner_, make_planner(settings_.planner));
  const auto& spec = settings_.spec;
  GLEANER_ASSIGN(rule_, make_upload_rule(spec.upload_rule, {.skip_share = spec.skip_share,
                                                            .age_max = spec.age_max,
                                                            .c0 = spec.c0,
                                                            .history = spec.rule_history,
                                                            .zeta = spec.zeta}));
  GLEANER_ASSIGN(auto owner, ModelOwner::make(settings_, *needs_.kernels));
  model_ = std::make_shared<ModelOwner>(std::move(owner));
  hashes_[Version{0}] = model_->model().hash();

  GLEANER_TRY(restore_model(*needs_.database, row_, *model_));
  return load_rounds();
}

Status RunEngine::load_rounds() {
  const Version oldest{row_.version.value > settings_.patches_kept ? row_.version.value - settings_.patches_kept : 0};
  GLEANER_ASSIGN(auto patches, needs_.database->patches(row_.id, oldest, row_.version));
  // Only the newest stretch without gaps leads anywhere.
  std::uint32_t expected = row_.version.value;
  for (auto it = patches.rbegin(); it != patches.rend() && it->version.value == expected; ++it, --expected) {
    PayloadBytes split;
    const PayloadLimits limits{.entries_max = settings_.spec.dimension, .clip = it->clip};
    if (!decode_payload(it->patch, model_->tensors(), limits, &split)) {
      return fail(ErrorCode::corrupt, fmt::format("the patch of version {} cannot be decoded", it->version.value));
    }
    patches_.push_front({std::move(*it), split});
  }

  round::Start start{.lineage = row_.lineage,
                     .divisor = row_.divisor,
                     .rounds_done = row_.rounds_done,
                     .next_plan = row_.next_plan,
                     .version = row_.version,
                     .model_hash = model_->model().hash(),
                     .paused = row_.state == RunState::paused,
                     .lineage_may_change = needs_.lineage_may_change};
  GLEANER_ASSIGN(const auto rounds,
                 needs_.database->newest_rounds(row_.id, std::max<std::uint32_t>(settings_.patches_kept, 64)));
  for (const auto& round : rounds) {
    start.history.push_back({.step_squared_norm = round.step_squared_norm, .left_sides = round.left_sides});
    if (round.version.value != 0) hashes_[round.version] = round.model_hash;
    if (round.accuracy) {
      accuracy_ = round.accuracy;
      loss_ = round.loss;
      evaluated_ = round.version;
    }
  }
  while (start.history.size() > 64) start.history.pop_front();
  GLEANER_ASSIGN(const auto totals, needs_.database->totals(row_.id));
  committed_traffic_ = totals.traffic;
  plans_answered_ = totals.uploads + totals.skips;
  start.counters = {.uploads = totals.uploads,
                    .late_uploads = totals.late_uploads,
                    .skips = totals.skips,
                    .refusals = totals.refusals,
                    .lapsed_plans = totals.lapsed_plans,
                    .empty_rounds = totals.empty_rounds};
  GLEANER_ASSIGN(start.open_plans, needs_.database->open_plans(row_.id));
  for (const auto& plan : start.open_plans) plan_rows_[plan.id] = plan;
  machine_ = std::make_unique<round::Machine>(settings_, std::move(start), *planner_, *rule_);
  return {};
}

void RunEngine::maybe_snapshot() {
  if (snapshotting_) return;
  snapshotting_ = true;
  needs_.executors.storage([this, self = shared_from_this(), database = needs_.database, run = row_.id] {
    auto log_bytes = database->log_bytes_since_snapshot(run);
    back([this, log_bytes = std::move(log_bytes)] {
      // A snapshot is worth its bytes once a replay would read as many.
      const std::uint64_t snapshot_bytes = 20ULL * settings_.spec.dimension;
      if (!log_bytes || *log_bytes < snapshot_bytes) {
        snapshotting_ = false;
        return;
      }
      needs_.executors.compute([this, self = shared_from_this(), model = model_] {
        auto bytes = std::make_shared<const Bytes>(model->model().to_snapshot());
        back([this, bytes, version = model->model().version()] { begin_snapshot(version, bytes); });
      });
    });
  });
}

void RunEngine::begin_snapshot(Version version, std::shared_ptr<const Bytes> bytes) {
  needs_.executors.storage(
      [this, self = shared_from_this(), database = needs_.database, run = row_.id, version, bytes] {
        const Status status = database->begin_snapshot(run, version, bytes->size());
        failpoint("coordinator.snapshot.begun");
        back([this, version, bytes, status] {
          if (status) return write_snapshot(version, bytes, 0);
          snapshot_ended(version, status);
        });
      });
}

void RunEngine::write_snapshot(Version version, std::shared_ptr<const Bytes> bytes, std::size_t offset) {
  // One piece a job, so that commits go in between.
  needs_.executors.storage([this, self = shared_from_this(), database = needs_.database, run = row_.id,
                            kept = settings_.patches_kept, version, bytes, offset] {
    const bool last = offset >= bytes->size();
    const std::size_t size = std::min(kPieceBytes, bytes->size() - offset);
    const Status status = last ? database->finish_snapshot(run, version, kept)
                               : database->append_snapshot(run, version, ByteView(*bytes).subspan(offset, size));
    failpoint(last ? "coordinator.snapshot.finished" : "coordinator.snapshot.piece");
    back([this, version, bytes, next = offset + size, last, status] {
      if (last || !status) return snapshot_ended(version, status);
      write_snapshot(version, bytes, next);
    });
  });
}

void RunEngine::snapshot_ended(Version version, const Status& status) {
  snapshotting_ = false;
  if (status) {
    log_info("run {}: snapshot of version {} written", row_.name, version.value);
    needs_.executors.storage([database = needs_.database] {
      if (const Status folded = database->checkpoint(); !folded) log_warn("checkpoint: {}", folded.error().message());
    });
  } else if (status.error().code() == ErrorCode::no_space) {
    log_warn("run {}: no room for a snapshot of version {}: the log goes on without it ({})", row_.name, version.value,
             status.error().message());
  } else {
    needs_.on_fatal(status.error().within("writing a snapshot"));
  }
}

}  // namespace gleaner
