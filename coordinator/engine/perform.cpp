#include "common/check.hpp"
#include "common/log.hpp"
#include "coordinator/engine/run_engine.hpp"

namespace gleaner {

void RunEngine::perform(round::StorePlans action) {
  for (const auto& plan : action.plans) plan_rows_[plan.id] = plan;
  needs_.executors.storage([this, self = shared_from_this(), database = needs_.database, run = row_.id,
                            known = row_.divisor, action = std::move(action)] {
    failpoint("coordinator.plans.before_store");
    Status status = action.divisor == known ? Status{} : database->set_divisor(run, action.divisor);
    if (status) status = database->issue_plans(run, action.plans);
    failpoint("coordinator.plans.stored");
    back([this, divisor = action.divisor, status = std::move(status)] {
      if (!status && status.error().code() != ErrorCode::no_space)
        return needs_.on_fatal(status.error().within("storing plans"));
      if (status) row_.divisor = divisor;
      handle(round::PlansStored{status ? std::nullopt : std::optional(status.error())});
    });
  });
}

void RunEngine::perform(const round::BeginRound& action) {
  needs_.executors.compute([model = model_, grid = action.grid] {
    model->accumulator().reset(grid);
    model->prepared.reset();
  });
}

void RunEngine::perform(const round::SendSettle& action) {
  failpoint("coordinator.settle.before_send");
  needs_.outbox->send(action.device, Settle{row_.id, action.plan, action.outcome, action.resend});
}

void RunEngine::perform(const round::SendRefused& action) {
  ++refusals_[action.code];
  log_warn("device {}: update to plan {} refused: {}{}{}", action.device.value, action.plan.value,
           to_string(action.code), action.detail.empty() ? "" : ", ", action.detail);
  needs_.outbox->send(action.device, Refused{action.plan, action.code, action.detail});
}

void RunEngine::perform(const round::Fold& action) {
  const auto held = payloads_.find(action.plan);
  GLEANER_CHECK(held != payloads_.end());
  folds_->put({action, held->second.bytes});
  needs_.executors.compute([this, self = shared_from_this(), model = model_, folds = folds_,
                            clip = Grid{.clip_exponent = settings_.spec.clip_exponent}.clip()] {
    // With what has gathered meanwhile: the jobs that were posted for it then find less to do, or nothing.
    auto waiting = folds->take();
    if (waiting.empty()) return;
    std::vector<CodedUpdate> updates;
    updates.reserve(waiting.size());
    for (const auto& [fold, bytes] : waiting) {
      updates.push_back({*bytes, {.entries_max = fold.entries_max, .clip = clip}, fold.weight});
    }
    auto results = model->accumulator().fold(updates, model->upload_grouping());
    back([this, waiting = std::move(waiting), results = std::move(results)] {
      for (std::size_t i = 0; i < waiting.size() && alive_; ++i) folded(waiting[i].action.plan, results[i]);
    });
  });
}

void RunEngine::folded(PlanId plan, const Admitted<PayloadBytes>& result) {
  perform(round::DropPayload{plan});
  if (result) {
    open_traffic_.up_value_bytes += result->value_bytes;
    open_traffic_.up_index_bytes += result->index_bytes;
  }
  handle(round::FoldDone{plan, result ? std::nullopt : std::optional(result.error())});
}

void RunEngine::perform(const round::DropPayload& action) {
  const auto held = payloads_.find(action.plan);
  if (held == payloads_.end()) return;
  needs_.outbox->payload_released(held->second.bytes->size());
  payloads_.erase(held);
}

void RunEngine::perform(const round::Step&) {
  needs_.executors.compute([this, self = shared_from_this(), model = model_, divisor = row_.divisor] {
    model->model().set_divisor(divisor);
    round::Stepped event;
    const auto record = std::make_shared<CommitRecord>();
    PayloadBytes split;
    // The record first: the step takes the sum's memory.
    record->aggregate = to_log(divisor, model->accumulator());
    record->weight = model->accumulator().weight();
    record->contributions = model->accumulator().contributions();
    auto step = model->model().prepare(std::move(model->accumulator()));
    if (step) {
      event.version = step->version;
      event.model_hash = step->model_hash;
      event.step_squared_norm = step->step_squared_norm;
      record->version = step->version;
      record->patch = step->patch;
      record->patch_clip = step->patch_clip;
      record->model_hash = step->model_hash;
      record->step_squared_norm = step->step_squared_norm;
      split = step->patch_split;
      if (step->saturated > 0)
        log_warn("{} coordinates of the step are beyond the grid: the model diverges", step->saturated);
      model->prepared = std::move(*step);
    } else {
      event.error = step.error();
    }
    back([this, event, split, record] {
      patch_split_ = split;
      record_ = record;
      handle(event);
    });
  });
}

void RunEngine::perform(round::Commit action) {
  if (action.version.value == 0) record_ = std::make_shared<CommitRecord>();
  GLEANER_CHECK(record_ != nullptr && record_->version == action.version);
  // A retry after a full disk comes with the same record; only the rest of it is new. Its megabytes are not copied:
  // nobody touches them before the commit has ended.
  const std::shared_ptr<CommitRecord> record = record_;
  record->round = action.round;
  record->answers = std::move(action.answers);
  record->late_uploads = action.late_uploads;
  record->duration_ms =
      static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(action.duration).count());
  record->wall_unix_ms = needs_.executors.clock->wall_unix_ms();
  record->traffic = take_traffic();
  needs_.executors.storage([this, self = shared_from_this(), database = needs_.database, run = row_.id, record] {
    failpoint("coordinator.commit.before");
    const Status status = database->commit(run, *record);
    failpoint("coordinator.commit.stored");
    back([this, record, error = status ? std::nullopt : std::optional(status.error())] { committed(*record, error); });
  });
}

void RunEngine::committed(const CommitRecord& record, std::optional<Error> error) {
  if (error) {
    if (error->code() != ErrorCode::no_space) return needs_.on_fatal(error->within("committing a round"));
    // What was counted for this record is counted again when it is tried again, beside what came meanwhile.
    counted_.up_bytes -= record.traffic.up_bytes;
    counted_.down_bytes -= record.traffic.down_bytes;
    open_traffic_.up_value_bytes += record.traffic.up_value_bytes;
    open_traffic_.up_index_bytes += record.traffic.up_index_bytes;
    open_traffic_.down_value_bytes += record.traffic.down_value_bytes;
    open_traffic_.down_index_bytes += record.traffic.down_index_bytes;
    handle(round::Committed{std::move(error)});
    return;
  }
  record_.reset();
  committed_traffic_ += record.traffic;
  for (const auto& answer : record.answers) {
    plan_rows_.erase(answer.plan);
    plans_answered_ += answer.outcome == Outcome::included || answer.outcome == Outcome::skipped ? 1 : 0;
  }
  if (record.version.value != 0) {
    needs_.executors.compute([model = model_] {
      GLEANER_CHECK(model->prepared.has_value());
      model->model().commit(std::move(*model->prepared));
      model->prepared.reset();
    });
    hashes_[record.version] = record.model_hash;
    patches_.push_back({{record.version, record.patch_clip, record.patch}, patch_split_});
    while (patches_.size() > std::max<std::size_t>(1, settings_.patches_kept)) {
      hashes_.erase(patches_.front().row.version);
      patches_.pop_front();
    }
  }
  failpoint("coordinator.outcome.before_send");
  handle(round::Committed{});
  maybe_snapshot();
  needs_.on_progress();
}

void RunEngine::perform(const round::Evaluate& action) {
  if (needs_.evaluation == nullptr) return;
  ++evaluations_open_;
  needs_.executors.compute(
      [this, self = shared_from_this(), model = model_, version = action.version, data = needs_.evaluation] {
        const auto parameters = model->model().parameters();
        auto copy = std::make_shared<std::vector<float>>(parameters.begin(), parameters.end());
        needs_.executors.background([this, self, copy, version, data, settings = settings_] {
          auto spec = model_of(settings);
          GLEANER_CHECK(spec.has_value());
          const Network network(*spec);
          auto result = evaluate(network, *data, *copy);
          if (!result) log_warn("evaluation of version {}: {}", version.value, result.error().message());
          back([this, version, result = std::move(result)] {
            evaluated(version, result ? std::optional(*result) : std::nullopt);
          });
        });
      });
}

void RunEngine::evaluated(Version version, std::optional<Evaluation> result) {
  --evaluations_open_;
  if (result) {
    accuracy_ = result->accuracy;
    loss_ = result->mean_loss;
    evaluated_ = version;
    needs_.executors.storage(
        [this, self = shared_from_this(), database = needs_.database, run = row_.id, version, r = *result] {
          const Status status = database->record_evaluation(run, version, r.accuracy, r.mean_loss);
          if (!status)
            log_warn("the evaluation of version {} is not stored: {}", version.value, status.error().message());
          back([this] { finish_when_evaluated(); });
        });
  }
  handle(round::EvaluationDone{version});
  needs_.on_progress();
  if (!result) finish_when_evaluated();
}

void RunEngine::perform(const round::StartTimer& action) { needs_.executors.start_timer(action.timer, action.after); }
void RunEngine::perform(const round::StopTimer& action) { needs_.executors.stop_timer(action.timer); }
void RunEngine::perform(const round::ChangeLineage& action) { needs_.on_lineage_change(action.reason); }

void RunEngine::perform(const round::Note& action) {
  if (action.warning) {
    log_warn("run {}: {}", row_.name, action.text);
  } else {
    log_info("run {}: {}", row_.name, action.text);
  }
  needs_.on_progress();
}

void RunEngine::perform(const round::Finish&) {
  finishing_ = true;
  finish_when_evaluated();
}

void RunEngine::finish_when_evaluated() {
  if (!finishing_ || evaluations_open_ > 0) return;
  finishing_ = false;
  needs_.executors.storage([this, self = shared_from_this(), database = needs_.database, run = row_.id] {
    failpoint("coordinator.finish.before_store");
    const Status status = database->set_run_state(run, RunState::finished);
    failpoint("coordinator.finish.stored");
    back([this, status] {
      if (!status) log_warn("run {}: its end is not stored: {}", row_.name, status.error().message());
      row_.state = RunState::finished;
      needs_.on_progress();
      needs_.on_finished();
    });
  });
}

}  // namespace gleaner
