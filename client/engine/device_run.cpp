#include "client/engine/device_run.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "aggregation/catch_up.hpp"
#include "common/check.hpp"
#include "common/hash.hpp"
#include "common/text.hpp"
#include "training/model.hpp"
#include "training/trainer.hpp"

namespace gleaner {

DeviceRun::DeviceRun(const RunSpec& spec, Lineage lineage, Needs needs, const ModelSpec& model)
    : spec_(spec),
      lineage_(lineage),
      needs_(std::move(needs)),
      model_spec_(model),
      own_network_(needs_.network == nullptr ? std::make_unique<Network>(model) : nullptr),
      own_scratch_(needs_.scratch == nullptr ? std::make_unique<LocalScratch>() : nullptr),
      network_(own_network_ ? *own_network_ : *needs_.network),
      scratch_(own_scratch_ ? *own_scratch_ : *needs_.scratch),
      all_samples_(needs_.samples->samples) {
  std::iota(all_samples_.begin(), all_samples_.end(), 0U);
  for (const auto& tensor : tensors_of(model)) tensors_.sizes.push_back(static_cast<std::uint32_t>(tensor.size()));
  upload_grouping_ = spec.per_tensor ? tensors_ : Grouping{{spec.dimension}};
}

MemoryKind memory_kind_of(const RunSpec& spec, const UploadRule& rule) {
  const bool nothing_left = spec.compressor == "dense" && spec.value_format_up == "f32" && spec.upload_rule == "always";
  return nothing_left ? MemoryKind::none : rule.memory();
}

Result<std::unique_ptr<DeviceRun>> DeviceRun::open(const RunSpec& spec, Lineage lineage, Needs needs) {
  const DatasetShape& shape = *needs.samples;
  GLEANER_ASSIGN(const auto model, model_spec(spec.model, shape, {.hidden = spec.hidden_units}));
  if (::gleaner::schema_hash(model) != spec.schema_hash || parameter_count(model) != spec.dimension) {
    return fail(
        ErrorCode::bad_input,
        fmt::format(
            "data {} has {}x{}x{} features and {} classes here: that makes a {} of {} parameters, the run's has {}",
            spec.data, shape.height, shape.width, shape.channels, shape.classes, spec.model, parameter_count(model),
            spec.dimension));
  }
  std::unique_ptr<DeviceRun> run(new DeviceRun(spec, lineage, std::move(needs), model));
  GLEANER_ASSIGN(run->rule_, make_upload_rule(spec.upload_rule, {.skip_share = spec.skip_share,
                                                                 .age_max = spec.age_max,
                                                                 .c0 = spec.c0,
                                                                 .history = spec.rule_history,
                                                                 .zeta = spec.zeta}));
  GLEANER_ASSIGN(run->compressor_, make_compressor(spec.compressor, {.per_tensor = spec.per_tensor}, run->tensors_,
                                                   *run->needs_.kernels));
  GLEANER_ASSIGN(run->value_format_, parse_value_format(spec.value_format_up));
  run->memory_kind_ = memory_kind_of(spec, *run->rule_);
  GLEANER_TRY(run->load());
  return run;
}

Status DeviceRun::load() {
  state_ = {};
  GLEANER_ASSIGN(const auto bytes, needs_.store->load(spec_.id));
  if (!bytes) {
    state_.lineage = lineage_;
    state_.memory.emplace(memory_kind_, spec_.dimension);
    return {};
  }
  auto state = device_state_from(*bytes, spec_.id, memory_kind_, spec_.dimension);
  if (!state) {
    return fail(state.error().within(
        "the state of run " + to_hex(spec_.id.value) +
        " is damaged (move its file out of the state directory to begin anew; what was not sent is lost)"));
  }
  state_ = std::move(*state);
  return {};
}

session::Held held_of(const DeviceState& state) {
  session::Held held{
      .has_model = state.has_model, .lineage = state.lineage, .version = state.version, .model_hash = state.model_hash};
  if (state.answer && state.answer->send) {
    held.pending_plan = state.answer->plan;
    held.pending_digest = state.answer->digest;
  }
  return held;
}

session::Held DeviceRun::held() const { return held_of(state_); }

void DeviceRun::settle(PlanId plan, Outcome outcome) {
  if (!state_.answer || state_.answer->plan != plan || outcome == Outcome::unknown) return;
  if (state_.answer->send) state_.zeroed_coordinates += state_.memory->settle(outcome);
  state_.answer.reset();
}

std::optional<session::Answer> DeviceRun::stored_answer(PlanId plan) const {
  return state_.answer && state_.answer->plan == plan ? state_.answer : std::nullopt;
}

session::Executed DeviceRun::execute(const session::Task& task) {
  auto prepared = prepare(task);
  if (auto* done = std::get_if<session::Executed>(&prepared)) return std::move(*done);
  const auto& training = std::get<Training>(prepared);
  return finish(task, train_local(network_, *needs_.samples, all_samples_, training.parameters, training.work,
                                  training.turn, scratch_));
}

std::variant<session::Executed, DeviceRun::Training> DeviceRun::prepare(const session::Task& task) {
  session::Executed done{.run = spec_.id, .plan = task.plan.id, .answer = stored_answer(task.plan.id)};
  if (done.answer) {
    done.held = held();
    return done;
  }
  if (!state_.memory) {
    done.error = Error(ErrorCode::corrupt, "the state of this run could not be read");
    return done;
  }
  if (state_.answer && state_.answer->send) {
    done.error = Error(ErrorCode::peer_fault,
                       fmt::format("it came while the outcome of plan {} is unknown", state_.answer->plan.value));
    done.held = held();
    return done;
  }
  state_.answer.reset();
  const auto base = catch_up(task);
  if (!base || !*base) {
    if (!base) done.error = base.error();
    done.needs_model = true;
    done.held = held();
    done.held.has_model = false;
    return done;
  }
  began_ = needs_.clock->now();
  if (samples() == 0) return end(task, nullptr, nullptr);
  return Training{.parameters = state_.model,
                  .work = {.epochs = spec_.local_epochs,
                           .batch_size = spec_.batch_size,
                           .learning_rate = spec_.learning_rate,
                           .momentum = spec_.momentum,
                           .weight_decay = spec_.weight_decay,
                           .max_steps = task.plan.steps_max},
                  .turn = turn_of(task)};
}

std::optional<FusedSelection> DeviceRun::fused_selection(const session::Task& task) {
  if (compressor_->name() != "topk" || spec_.per_tensor || memory_kind_ != MemoryKind::residual) return std::nullopt;
  return FusedSelection{.residual = state_.memory->state(), .k = task.plan.entries_max, .selection = {}};
}

session::Executed DeviceRun::finish(const session::Task& task, const Result<LocalResult>& trained,
                                    const Selection* selected) {
  return end(task, &trained, selected);
}

session::Executed DeviceRun::end(const session::Task& task, const Result<LocalResult>* trained,
                                 const Selection* selected) {
  session::Executed done{.run = spec_.id, .plan = task.plan.id, .answer = std::nullopt};
  auto answer = answer_with(task, trained, selected, done.error);
  if (answer) {
    done.answer = std::move(*answer);
  } else {
    done.error = answer.error();
    // Nothing of this round was kept; what the store holds is the state before it.
    if (const Status loaded = load(); !loaded) done.error = loaded.error();
  }
  done.held = held();
  return done;
}

Result<bool> DeviceRun::catch_up(const session::Task& task) {
  const Plan& plan = task.plan;
  const bool same_model = state_.has_model && state_.lineage == plan.lineage;
  if (plan.sync == SyncKind::none)
    return same_model && state_.version == plan.base && state_.model_hash == plan.base_hash;
  std::vector<float> seeded;
  std::span<const float> from = state_.model;
  const bool from_seed =
      plan.sync == SyncKind::seeded || (plan.sync_from.value == 0 && !(same_model && state_.version.value == 0));
  if (from_seed && plan.sync != SyncKind::snapshot) {
    if (needs_.first_model.empty()) seeded = initial_parameters(model_spec_, spec_.seed);
    from = needs_.first_model.empty() ? seeded : needs_.first_model;
  } else if (plan.sync == SyncKind::snapshot) {
    seeded.resize(spec_.dimension);
    from = seeded;
  } else if (!same_model || state_.version != plan.sync_from) {
    return false;
  }
  auto model =
      apply_catch_up(static_cast<CatchUpKind>(plan.sync), task.sync, from, plan.base_hash, tensors_, *needs_.kernels);
  if (!model)
    return fail(ErrorCode::peer_fault, fmt::format("the way to model version {}: {}, {}", plan.base.value,
                                                   to_string(model.error().code()), model.error().detail()));
  state_.model = std::move(*model);
  state_.has_model = true;
  state_.lineage = plan.lineage;
  state_.version = plan.base;
  state_.model_hash = plan.base_hash;
  return true;
}

session::Answer DeviceRun::skip_answer(const session::Task& task) const {
  return {.run = spec_.id, .plan = task.plan.id, .send = false, .samples = samples()};
}

Result<session::Answer> DeviceRun::answer_with(const session::Task& task, const Result<LocalResult>* trained,
                                               const Selection* selected, std::optional<Error>& trouble) {
  session::Answer answer = skip_answer(task);
  if (trained != nullptr && *trained) {
    const LocalResult& result = **trained;
    answer.loss = static_cast<float>(result.mean_loss);
    if (needs_.on_update) needs_.on_update(result.delta);
    GLEANER_TRY(compress(task, result.delta, selected, answer));
  } else if (trained != nullptr) {
    // The round must not wait for a device that cannot train: it says that it has nothing, and why in its own log.
    trouble = trained->error().within("training");
  }
  const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(needs_.clock->now() - began_);
  answer.compute_ms = static_cast<std::uint32_t>(spent.count());
  state_.answer = answer;
  GLEANER_TRY(needs_.store->save(spec_.id, to_bytes(state_, spec_.id)));
  failpoint("client.answer.stored");
  return answer;
}

Status DeviceRun::compress(const session::Task& task, std::span<const float> update, const Selection* selected,
                           session::Answer& answer) {
  Selection selection;
  std::vector<float> own_candidate;
  std::span<float> candidate = state_.memory->state();
  std::span<const float> tracked;
  if (memory_kind_ != MemoryKind::residual) {
    tracked = memory_kind_ == MemoryKind::tracked ? candidate : std::span<float>{};
    own_candidate.resize(spec_.dimension);
    candidate = own_candidate;
  }
  if (selected == nullptr) {
    GLEANER_TRY(compressor_->select(update, tracked, candidate, memory_kind_, task.plan.entries_max, selection));
    selected = &selection;
  }
  GLEANER_ASSIGN(const Decision decision, decide(task, update, selected->squared_norm));
  answer.left = static_cast<float>(decision.left);
  answer.right = static_cast<float>(decision.right);
  answer.send = decision.send;
  if (rule_->state() == RuleState::previous_update) state_.rule_state.assign(update.begin(), update.end());
  if (!decision.send) return {};
  GLEANER_TRY(put_in_flight(*selected, answer));
  if (rule_->state() == RuleState::last_upload_model) state_.rule_state = state_.model;
  state_.ever_sent = true;
  state_.last_sent_round = task.plan.round;
  return {};
}

Turn DeviceRun::turn_of(const session::Task& task) const {
  return {
      .seed = spec_.seed, .round = task.plan.round, .device = static_cast<std::uint32_t>(hash_of(needs_.name.value))};
}

Result<Decision> DeviceRun::decide(const session::Task& task, std::span<const float> update,
                                   double candidate_squared_norm) {
  RuleInput input{.weight = static_cast<double>(samples()),
                  .age = state_.ever_sent ? task.plan.round - state_.last_sent_round : spec_.age_max,
                  .threshold = task.plan.threshold,
                  .update = update,
                  .candidate_squared_norm = candidate_squared_norm,
                  .state = state_.rule_state};
  input.gradient_difference = [&]() -> Result<double> {
    const auto batch = draw_batch(all_samples_, spec_.batch_size, turn_of(task));
    std::vector<float> now(spec_.dimension);
    std::vector<float> then(spec_.dimension);
    GLEANER_TRY(gradient_at(network_, *needs_.samples, batch, state_.model, now));
    GLEANER_TRY(gradient_at(network_, *needs_.samples, batch, state_.rule_state, then));
    double sum = 0.0;
    for (std::size_t i = 0; i < now.size(); ++i) {
      const double difference = double{now[i]} - double{then[i]};
      sum += difference * difference;
    }
    return sum;
  };
  return rule_->decide(input);
}

Status DeviceRun::put_in_flight(const Selection& selection, session::Answer& answer) {
  const SparseVector chosen{spec_.dimension, selection.indices, selection.values};
  auto encoded = encode_payload(chosen, upload_grouping_, value_format_, std::ldexp(1.0F, spec_.clip_exponent));
  GLEANER_TRY(state_.memory->begin({spec_.dimension, selection.indices, std::move(encoded.sent)}));
  answer.digest = digest_of(encoded.bytes);
  answer.payload = std::make_shared<const Bytes>(std::move(encoded.bytes));
  return {};
}

}  // namespace gleaner
