#include "training/cuda/batch_trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "common/check.hpp"
#include "training/cuda/schedule.hpp"
#include "training/cuda/wave_work.hpp"

namespace gleaner::cuda {
namespace {

// Keeps products of slots and their pieces of work below 2^32.
constexpr std::uint32_t kSlotsMax = 2'000;
constexpr std::uint64_t kTurnMax = std::uint64_t{1} << 30;  // samples, and parts

bool same_start(std::span<const float> a, std::span<const float> b) {
  return a.data() == b.data() || (a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

}  // namespace

std::string text(const WaveFigures& figures) {
  const auto megabytes = [](std::uint64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  return fmt::format("waves of {} devices, {:.1f} MB of GPU memory each, beside {:.1f} MB of samples, in {:.1f} MB",
                     figures.devices, megabytes(figures.device_bytes), megabytes(figures.data_bytes),
                     megabytes(figures.budget_bytes));
}

BatchTrainer::BatchTrainer(Engine& engine, std::unique_ptr<Products> products, const TrainingLaunches& launches,
                           const ModelSpec& spec, const Dataset& dataset)
    : engine_(engine),
      products_(std::move(products)),
      launches_(launches),
      spec_(spec),
      layout_(layout_of(spec)),
      shape_(dataset),
      samples_(dataset.samples) {}

BatchTrainer::~BatchTrainer() {
  // Graphs that still run use the memory.
  static_cast<void>(engine_.wait());
}

Result<std::unique_ptr<BatchTrainer>> BatchTrainer::create(Engine& engine, std::unique_ptr<Products> products,
                                                           const TrainingLaunches& launches, const ModelSpec& spec,
                                                           const Dataset& dataset) {
  GLEANER_TRY(check_spec(spec));
  const std::vector<float> no_parameters(parameter_count(spec));
  GLEANER_TRY(check_sizes(spec, no_parameters.size(), dataset, no_parameters));
  const auto wrong = std::ranges::find_if(dataset.labels, [&](std::uint8_t label) { return label >= spec.classes; });
  if (wrong != dataset.labels.end()) {
    return fail(ErrorCode::bad_input,
                fmt::format("a sample has the label {}, but there are {} classes", *wrong, spec.classes));
  }
  std::unique_ptr<BatchTrainer> trainer(new BatchTrainer(engine, std::move(products), launches, spec, dataset));
  GLEANER_ASSIGN(trainer->pixels_, engine.uploaded(std::span<const std::uint8_t>(dataset.pixels)));
  GLEANER_ASSIGN(trainer->labels_, engine.uploaded(std::span<const std::uint8_t>(dataset.labels)));
  // As gather() has them.
  trainer->on_device_ = {
      .pixels = trainer->pixels_.data(),
      .labels = trainer->labels_.data(),
      .features = dataset.features,
      .scale = static_cast<float>(1.0 / (255.0 * dataset.standardisation.deviation)),
      .shift = static_cast<float>(-dataset.standardisation.mean / dataset.standardisation.deviation)};
  return trainer;
}

std::string BatchTrainer::describe() const {
  return fmt::format("{} with {}{}{}", engine_.driver().describe_device(), products_->name(), last_ ? ": " : "",
                     last_ ? text(*last_) : "");
}

Status BatchTrainer::check(const CohortTurn& turn) const {
  GLEANER_TRY(check_sizes(spec_, layout_.parameters, shape_, turn.parameters));
  GLEANER_TRY(check_samples(samples_, turn.samples));
  GLEANER_TRY(check_work(turn.work));
  const ScheduleSize size = schedule_size(turn.work, static_cast<std::uint32_t>(turn.samples.size()));
  if (std::max(size.parts, size.order) <= kTurnMax) return {};
  return fail(ErrorCode::bad_input,
              fmt::format("GPU: {} samples in {} steps are more than one turn may have: use fewer epochs", size.order,
                          size.steps));
}

// The turns have been checked. Tables grow in powers of two, so that graphs stay good for the next turns.
Result<Room> BatchTrainer::room_for(std::span<const CohortTurn> turns,
                                    std::span<const FusedSelection> selections) const {
  Room room;
  std::uint64_t parts = 1;
  const CohortTurn* first = nullptr;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const CohortTurn& turn = turns[i];
    if (!check(turn)) continue;
    const ScheduleSize size = schedule_size(turn.work, static_cast<std::uint32_t>(turn.samples.size()));
    if (first == nullptr) first = &turn;
    room.rows = std::max(room.rows, size.rows);
    parts = std::max(parts, size.parts);
    room.order = std::max(room.order, std::bit_ceil(size.order));
    const bool steps_apart = turn.work.momentum > 0.0F || turn.work.weight_decay > 0.0F || size.parts != size.steps ||
                             turn.work.learning_rate != first->work.learning_rate;
    room.has_gradient |= steps_apart;
    room.has_velocity |= turn.work.momentum > 0.0F;
    room.has_own_start |= !same_start(turn.parameters, first->parameters);
    if (!selections.empty()) room.selects = std::max(room.selects, selections[i].k);
  }
  room.parts = static_cast<std::uint32_t>(std::bit_ceil(parts));
  GLEANER_TRY(check_room(layout_, room));
  return room;
}

// As many slots as the pool's rounding leaves room for.
WaveFigures BatchTrainer::figures_of(const Room& room) const {
  const Pool& pool = engine_.pool();
  const std::uint64_t mine = memory_ ? memory_bytes(layout_, memory_->room, memory_->slots) : 0;
  WaveFigures figures = {.budget_bytes = pool.budget_bytes(),
                         .data_bytes = pool.bytes_in_use() - mine,
                         .device_bytes = slots_bytes(layout_, room, 1)};
  const std::uint64_t left = figures.budget_bytes - std::min(figures.budget_bytes, figures.data_bytes);
  std::uint32_t high = limit_ == 0 ? kSlotsMax : std::min(limit_, kSlotsMax);
  while (figures.devices < high) {
    const std::uint32_t middle = high - (high - figures.devices) / 2;
    if (slots_bytes(layout_, room, middle) <= left) {
      figures.devices = middle;
    } else {
      high = middle - 1;
    }
  }
  return figures;
}

Result<WaveFigures> BatchTrainer::figures(std::span<const CohortTurn> turns,
                                          std::span<const FusedSelection> selections) const {
  GLEANER_ASSIGN(const Room room, room_for(turns, selections));
  return figures_of(room);
}

Status BatchTrainer::make_room(const Room& wanted, std::size_t turns) {
  Room room = wanted;
  if (memory_ && memory_->room.rows == room.rows) {
    room.parts = std::max(room.parts, memory_->room.parts);
    room.order = std::max(room.order, memory_->room.order);
  }
  WaveFigures figures = figures_of(room);
  if (figures.devices == 0) {
    room = wanted;
    figures = figures_of(room);
  }
  last_ = figures;
  if (figures.devices == 0) {
    return fail(ErrorCode::fatal,
                fmt::format("GPU memory: one device needs {} bytes for {} samples at a time, of the budget of {} only "
                            "{} are left; use a smaller batch or a larger budget",
                            figures.device_bytes, room.rows, figures.budget_bytes,
                            figures.budget_bytes - std::min(figures.budget_bytes, figures.data_bytes)));
  }
  const auto slots = static_cast<std::uint32_t>(std::min<std::size_t>(turns, figures.devices));
  last_->devices = slots;
  if (memory_ && memory_->room.has_arrays_of(room) && memory_->slots >= slots && memory_->slots <= figures.devices) {
    return {};
  }
  graphs_.clear();
  GLEANER_TRY(engine_.wait());  // nobody uses what goes
  memory_.reset();
  auto made = WaveMemory::create(engine_, layout_, room, slots);
  if (!made && engine_.lost()) return fail(made.error());
  if (!made) {
    return fail(made.error().within(fmt::format("room for {} devices of {} bytes, in a budget of {}", slots,
                                                figures.device_bytes, figures.budget_bytes)));
  }
  memory_ = std::move(*made);
  return {};
}

Status BatchTrainer::stage_ends(double StageSeconds::* stage) {
  if (seconds_ == nullptr) return {};
  GLEANER_TRY(engine_.wait());
  const auto now = std::chrono::steady_clock::now();
  seconds_->*stage += std::chrono::duration<double>(now - stage_began_).count();
  stage_began_ = now;
  return {};
}

Status BatchTrainer::train(std::span<const CohortTurn> turns, std::span<FusedSelection> selections, const Take& take) {
  GLEANER_CHECK(selections.empty() || selections.size() == turns.size());
  std::vector<std::size_t> good;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    if (check(turns[i])) good.push_back(i);
  }
  if (!good.empty()) {
    GLEANER_ASSIGN(const Room room, room_for(turns, selections));
    GLEANER_TRY(make_room(room, good.size()));
  }
  std::size_t told = 0;
  const Take tell = [&](std::size_t turn, Result<LocalResult> result) {
    for (; told < turn; ++told) take(told, fail(check(turns[told]).error()));
    if (turn == turns.size()) return;
    ++told;
    take(turn, std::move(result));
  };
  for (std::size_t first = 0; first < good.size();) {
    const auto work =
        work_of(std::span(good).subspan(first, std::min<std::size_t>(last_->devices, good.size() - first)), turns);
    GLEANER_TRY(train_wave(work, turns));
    std::vector<Progress> progress(work.turns.size());
    GLEANER_TRY(engine_.download(memory_->progress, std::span(progress)));
    if (!selections.empty()) GLEANER_TRY(select(work, progress, selections));
    GLEANER_TRY(stage_ends(&StageSeconds::select));
    GLEANER_TRY(hand_over(work, progress, turns, tell));
    GLEANER_TRY(stage_ends(&StageSeconds::fetch));
    first += work.turns.size();
  }
  tell(turns.size(), LocalResult{});
  return {};
}

}  // namespace gleaner::cuda
