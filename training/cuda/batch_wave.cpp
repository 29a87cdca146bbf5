#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "common/check.hpp"
#include "training/cuda/batch_trainer.hpp"
#include "training/cuda/schedule.hpp"
#include "training/cuda/wave_work.hpp"

namespace gleaner::cuda {
namespace {

constexpr std::uint32_t kExactSteps = 8;   // up to so many are one graph, more are pieces of powers of two
constexpr std::uint32_t kGraphSteps = 64;  // the largest piece
constexpr std::size_t kGraphsKept = 32;
constexpr std::uint32_t kEighths = 8;  // a wave that thins out is cut by eighths

}  // namespace

BatchTrainer::WaveWork BatchTrainer::work_of(std::span<const std::size_t> wave,
                                             std::span<const CohortTurn> turns) const {
  WaveWork work;
  work.turns.assign(wave.begin(), wave.end());
  for (const std::size_t turn : wave) work.schedules.push_back(schedule_of(turns[turn]));
  work.in_slot.resize(wave.size());
  std::iota(work.in_slot.begin(), work.in_slot.end(), std::size_t{0});
  std::ranges::sort(work.in_slot, [&](std::size_t a, std::size_t b) {
    const std::size_t parts_a = work.schedules[a].parts.size();
    const std::size_t parts_b = work.schedules[b].parts.size();
    return parts_a != parts_b ? parts_a > parts_b : a < b;
  });
  work.slot_of.resize(wave.size());
  for (std::uint32_t slot = 0; slot < work.in_slot.size(); ++slot) work.slot_of[work.in_slot[slot]] = slot;
  return work;
}

Status BatchTrainer::train_wave(const WaveWork& work, std::span<const CohortTurn> turns) {
  const float learning_rate = turns[work.turns.front()].work.learning_rate;
  GLEANER_TRY(fill_slots(work, turns));
  GLEANER_TRY(set_starts(work, turns));
  const Step all = step(static_cast<std::uint32_t>(work.turns.size()), learning_rate);
  GLEANER_TRY(stage_ends(&StageSeconds::prepare));
  GLEANER_TRY(all.enqueue_beginning());
  GLEANER_TRY(run_steps(work, learning_rate));
  GLEANER_TRY(all.enqueue_end());
  return stage_ends(&StageSeconds::steps);
}

Status BatchTrainer::fill_slots(const WaveWork& work, std::span<const CohortTurn> turns) {
  const std::size_t room = memory_->room.parts;
  std::vector<Part> plan(work.turns.size() * room);
  std::vector<Settings> settings;
  std::vector<std::uint64_t> first;
  std::vector<std::uint32_t> order;
  for (std::size_t slot = 0; slot < work.in_slot.size(); ++slot) {
    const Schedule& schedule = work.schedules[work.in_slot[slot]];
    const LocalWork& local = turns[work.turns[work.in_slot[slot]]].work;
    std::ranges::copy(schedule.parts, plan.begin() + static_cast<std::ptrdiff_t>(slot * room));
    settings.push_back({local.learning_rate, local.momentum, local.weight_decay});
    first.push_back(order.size());
    order.insert(order.end(), schedule.order.begin(), schedule.order.end());
  }
  GLEANER_TRY(engine_.upload(std::span<const Part>(plan), memory_->plan));
  GLEANER_TRY(engine_.upload(std::span<const Settings>(settings), memory_->settings));
  GLEANER_TRY(engine_.upload(std::span<const std::uint64_t>(first), memory_->order_first));
  GLEANER_TRY(engine_.upload(std::span<const std::uint32_t>(order), memory_->order));
  GLEANER_TRY(engine_.fill_with_zeros(memory_->now));
  GLEANER_TRY(engine_.fill_with_zeros(memory_->progress));
  GLEANER_TRY(engine_.fill_with_zeros(memory_->gradient));
  return engine_.fill_with_zeros(memory_->velocity);
}

Status BatchTrainer::set_starts(const WaveWork& work, std::span<const CohortTurn> turns) {
  const std::size_t size = layout_.parameters;
  const bool own = memory_->room.has_own_start;
  for (std::size_t slot = 0; slot < work.in_slot.size(); ++slot) {
    const std::size_t from = own ? slot * size : 0;
    if (own || slot == 0) {
      GLEANER_TRY(engine_.upload(turns[work.turns[work.in_slot[slot]]].parameters, memory_->start, from));
    }
    GLEANER_TRY(
        engine_.done(engine_.driver().copy(CopyKind::on_device, memory_->model.data() + slot * size,
                                           memory_->start.data() + from, size * sizeof(float), engine_.stream()),
                     "copying a model"));
  }
  return {};
}

// Slots that have ended drop out by eighths of the wave, so that there are few shapes and none runs mostly empty.
Status BatchTrainer::run_steps(const WaveWork& work, float learning_rate) {
  const auto devices = static_cast<std::uint32_t>(work.in_slot.size());
  const std::uint32_t eighth = (devices + kEighths - 1) / kEighths;
  const auto parts_of = [&](std::uint32_t slot) {
    return static_cast<std::uint32_t>(work.schedules[work.in_slot[slot]].parts.size());
  };
  std::uint32_t active = devices;
  for (std::uint32_t done = 0; done < parts_of(0);) {
    while (parts_of(active - 1) <= done) --active;
    const std::uint32_t left = parts_of(0) - done;
    const std::uint32_t steps = left <= kExactSteps ? left : std::bit_floor(std::min(left, kGraphSteps));
    GLEANER_TRY(run_piece(std::min(devices, (active + eighth - 1) / eighth * eighth), steps, learning_rate));
    done += steps;
  }
  return {};
}

// The first time launch by launch: what has never run prepares itself at its first launch, which a capture may not
// allow, and steps that come only once are no graph worth making.
Status BatchTrainer::run_piece(std::uint32_t devices, std::uint32_t steps, float learning_rate) {
  if (memory_->room.has_gradient) learning_rate = 0.0F;  // no launch has it among its arguments
  const Step one = step(devices, learning_rate);
  const auto all = [&]() -> Status {
    for (std::uint32_t i = 0; i < steps; ++i) GLEANER_TRY(one.enqueue());
    return {};
  };
  const auto known = std::ranges::find_if(graphs_, [&](const Graph& graph) {
    return graph.devices == devices && graph.steps == steps && graph.learning_rate == learning_rate;
  });
  if (known == graphs_.end()) {
    graphs_.push_front({devices, steps, learning_rate, {}});
    if (graphs_.size() > kGraphsKept) {
      GLEANER_TRY(engine_.wait());  // it may run still
      graphs_.pop_back();
    }
    return all();
  }
  graphs_.splice(graphs_.begin(), graphs_, known);
  Handle& handle = graphs_.front().handle;
  if (handle.get() == nullptr) {
    GLEANER_ASSIGN(handle, engine_.capture(all));
  }
  return engine_.done(engine_.driver().launch_graph(handle.get(), engine_.stream()), "starting the steps");
}

Step BatchTrainer::step(std::uint32_t devices, float learning_rate) const {
  return Step({.engine = &engine_,
               .products = products_.get(),
               .launches = &launches_,
               .layout = &layout_,
               .memory = &*memory_,
               .samples = on_device_},
              devices, learning_rate);
}

Status BatchTrainer::hand_over(const WaveWork& work, std::span<const Progress> all, std::span<const CohortTurn> turns,
                               const Take& take) {
  for (std::size_t i = 0; i < work.turns.size(); ++i) {
    const std::uint32_t slot = work.slot_of[i];
    const Progress& progress = all[slot];
    const LocalWork& local = turns[work.turns[i]].work;
    LocalResult result = {.samples_seen = progress.samples,
                          .mean_loss = progress.loss_sum / static_cast<double>(progress.samples),
                          .steps = progress.steps};
    if (progress.diverged != 0) {
      take(work.turns[i], diverged(kLossNotFinite, progress.steps, local));
    } else if (progress.non_finite != 0) {
      take(work.turns[i], diverged(kParameterNotFinite, progress.steps, local));
    } else {
      result.delta.resize(layout_.parameters);
      GLEANER_TRY(engine_.download(memory_->model, std::span(result.delta), std::size_t{slot} * layout_.parameters));
      take(work.turns[i], std::move(result));
    }
  }
  return {};
}

// One launch a kernel for the whole wave. Where there is no room for it, the caller selects.
Status BatchTrainer::select(const WaveWork& work, std::span<const Progress> progress,
                            std::span<FusedSelection> selections) {
  const std::size_t size = layout_.parameters;
  std::vector<std::uint32_t> k;
  for (const std::size_t i : work.in_slot) {
    const FusedSelection& selection = selections[work.turns[i]];
    if (selection.residual.size() != size) return {};
    k.push_back(selection.k);
  }
  DeviceSelection chosen;
  const auto residuals = engine_.allocate<float>(k.size() * size);
  const auto rows = engine_.rows(std::vector<std::uint32_t>(k.size(), layout_.parameters), k);
  if (!residuals || !rows) return engine_.lost() ? engine_.wait() : Status{};
  for (std::size_t slot = 0; slot < k.size(); ++slot) {
    const std::span<const float> residual = selections[work.turns[work.in_slot[slot]]].residual;
    GLEANER_TRY(engine_.upload(residual, *residuals, slot * size));
  }
  if (!engine_.accumulate_and_select(*rows, memory_->model, *residuals, chosen)) {
    return engine_.lost() ? engine_.wait() : Status{};
  }
  std::vector<RowReport> reports(k.size());
  GLEANER_TRY(engine_.download(chosen.reports, std::span(reports)));
  for (std::uint32_t slot = 0; slot < k.size(); ++slot) {
    const RowReport& report = reports[slot];
    FusedSelection& out = selections[work.turns[work.in_slot[slot]]];
    // Nothing comes of a turn that diverged; what overflows the residual is found again by the caller, who says so.
    if (progress[slot].diverged != 0 || report.non_finite != kNoIndex) continue;
    out.selection.indices.resize(report.selected);
    out.selection.values.resize(report.selected);
    out.selection.threshold = std::bit_cast<float>(report.threshold_bits);
    out.selection.squared_norm = report.squared_norm;
    out.selection.non_finite_index = Selection::kAllFinite;
    GLEANER_TRY(engine_.download(chosen.indices, std::span(out.selection.indices), rows->first_output(slot)));
    GLEANER_TRY(engine_.download(chosen.values, std::span(out.selection.values), rows->first_output(slot)));
    GLEANER_TRY(engine_.download(*residuals, out.residual, slot * size));
    out.is_done = true;
  }
  return {};
}

}  // namespace gleaner::cuda
