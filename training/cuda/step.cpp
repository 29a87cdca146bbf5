#include "training/cuda/step.hpp"

namespace gleaner::cuda {
namespace {

template <class T>
Strided<const T> read(Strided<T> values) {
  return {values.first, values.stride};
}

}  // namespace

Step::Step(const Needs& needs, std::uint32_t devices, float learning_rate)
    : needs_(needs),
      wave_(needs.memory->wave(devices, !needs.products->knows_counts())),
      direct_(!needs.memory->room.has_gradient),
      scale_(direct_ ? -learning_rate : 1.0F) {}

unsigned Step::blocks(std::uint64_t entries) const {
  return blocks_for_units(needs_.engine->driver(), wave_.devices * ((entries + kSpan - 1) / kSpan));
}

// Arrays of all slots: what comes before a stage's is as many slots of the stages before.
Strided<float> Step::output_of(const ModelStage& stage) const {
  const std::uint64_t rows = needs_.memory->room.rows;
  return {needs_.memory->outputs.data() + needs_.memory->slots * rows * stage.first_output, rows * stage.to_floats};
}

Strided<std::uint8_t> Step::winners_of(const ModelStage& stage) const {
  const std::uint64_t rows = needs_.memory->room.rows;
  return {needs_.memory->winners.data() + needs_.memory->slots * rows * stage.first_winner, rows * stage.to_floats};
}

Strided<const float> Step::input_of(std::size_t stage) const {
  const WaveMemory& memory = *needs_.memory;
  if (stage > 0) return read(output_of(needs_.layout->stages[stage - 1]));
  return {memory.inputs.data(), std::uint64_t{memory.room.rows} * needs_.layout->features};
}

Strided<float> Step::gradient_of(const ModelStage& stage, std::uint32_t which) const {
  return {needs_.memory->gradients[which].data(), needs_.memory->room.rows * stage.to_floats};
}

Strided<float> Step::input_gradient_of(const ModelStage& stage, std::uint32_t which) const {
  return {needs_.memory->gradients[which].data(), needs_.memory->room.rows * stage.from_floats};
}

Strided<float> Step::unrolled_of(const ModelStage& stage) const {
  return {needs_.memory->unrolled.data(), needs_.memory->room.rows * stage.window_floats()};
}

Status Step::enqueue_beginning() const {
  return started(needs_.launches->advance(stream(), wave_, {}), "looking up the first step");
}

Status Step::enqueue_end() const {
  return started(
      needs_.launches->subtract(stream(), blocks(needs_.layout->parameters), wave_, needs_.layout->parameters,
                                needs_.memory->start_of_all(), needs_.memory->model_at(0)),
      "forming the deltas");
}

Status Step::enqueue() const {
  const TrainingLaunches& launches = *needs_.launches;
  const WaveMemory& memory = *needs_.memory;
  const Layout& layout = *needs_.layout;
  const std::uint64_t rows = memory.room.rows;
  const Strided<std::uint8_t> labels = {memory.labels.data(), rows};
  const Strided<double> losses = {memory.row_losses.data(), rows};
  GLEANER_TRY(started(launches.gather(stream(), blocks_of_rows(layout.features), wave_, needs_.samples,
                                      {memory.inputs.data(), rows * layout.features}, labels),
                      "gathering samples"));
  GLEANER_TRY(forward());
  const ModelStage& last = layout.stages.back();
  const auto gradient = gradient_of(last, 0);
  GLEANER_TRY(
      started(launches.softmax(stream(), blocks_for_units(needs_.engine->driver(), (wave_.devices * rows + 7) / 8),
                               wave_, layout.classes, read(output_of(last)), read(labels), gradient, losses),
              "forming losses"));
  GLEANER_TRY(backward());
  if (!direct_) {
    GLEANER_TRY(
        started(launches.update(stream(), blocks(layout.parameters), wave_, layout.parameters, memory.model_at(0),
                                memory.gradient_at(0), {memory.velocity.data(), memory.parameters}),
                "making a step"));
  }
  return started(launches.advance(stream(), wave_, read(losses)), "booking a step");
}

Status Step::forward() const {
  const TrainingLaunches& launches = *needs_.launches;
  const WaveMemory& memory = *needs_.memory;
  for (std::size_t i = 0; i < needs_.layout->stages.size(); ++i) {
    const ModelStage& stage = needs_.layout->stages[i];
    const auto output = output_of(stage);
    if (!stage.multiplies()) {
      GLEANER_TRY(started(launches.pool(stream(), blocks_of_rows(stage.to_floats), wave_, stage.windows, input_of(i),
                                        output, winners_of(stage)),
                          "pooling"));
      continue;
    }
    Strided<const float> input = input_of(i);
    if (stage.kind == LayerKind::convolution) {
      const auto unrolled = unrolled_of(stage);
      GLEANER_TRY(started(
          launches.unroll(stream(), blocks_of_rows(stage.window_floats()), wave_, stage.windows, input, unrolled),
          "unrolling images"));
      input = read(unrolled);
    }
    GLEANER_TRY(needs_.products->multiply(stream(), wave_,
                                          {.left = {input},
                                           .right = {read(memory.model_at(stage.weights))},
                                           .result = output,
                                           .rows = memory.room.rows * stage.outputs.pixels,
                                           .columns = stage.outputs.columns,
                                           .inner = stage.inputs,
                                           .of_a_row = stage.outputs.pixels}));
    GLEANER_TRY(started(launches.add_bias(stream(), blocks_of_rows(stage.to_floats), wave_, stage.outputs,
                                          read(memory.model_at(stage.weights + stage.weight_floats())), output),
                        "adding a bias"));
  }
  return {};
}

Status Step::backward() const {
  std::uint32_t which = 0;
  for (std::size_t i = needs_.layout->stages.size(); i-- > 0; which = 1 - which) {
    const ModelStage& stage = needs_.layout->stages[i];
    if (!stage.multiplies()) {
      GLEANER_TRY(started(needs_.launches->unpool(stream(), blocks_of_rows(stage.from_floats), wave_, stage.windows,
                                                  read(gradient_of(stage, which)), read(winners_of(stage)),
                                                  input_gradient_of(stage, 1 - which)),
                          "taking a gradient through a pool"));
      continue;
    }
    GLEANER_TRY(backward_through(stage, which, i > 0));
    // The weights come last: where the products step straight into them, they have been read.
    Strided<const float> input = input_of(i);
    if (stage.kind == LayerKind::convolution) {
      const auto unrolled = unrolled_of(stage);
      GLEANER_TRY(started(needs_.launches->unroll(stream(), blocks_of_rows(stage.window_floats()), wave_, stage.windows,
                                                  input, unrolled),
                          "unrolling images"));
      input = read(unrolled);
    }
    const auto into = [&](std::uint64_t first) {
      return direct_ ? needs_.memory->model_at(first) : needs_.memory->gradient_at(first);
    };
    GLEANER_TRY(needs_.products->multiply(stream(), wave_,
                                          {.left = {input, 1},
                                           .right = {read(gradient_of(stage, which))},
                                           .result = into(stage.weights),
                                           .rows = stage.inputs,
                                           .columns = stage.outputs.columns,
                                           .inner = needs_.memory->room.rows * stage.outputs.pixels,
                                           .of_a_row = stage.outputs.pixels,
                                           .counts_inner = 1,
                                           .scale = scale_,
                                           .keep = 1.0F}));
    const Strided<const float> sums = {needs_.memory->sums.data(), sum_floats(*needs_.layout, needs_.memory->room)};
    GLEANER_TRY(started(needs_.launches->add_sums(stream(), blocks(stage.outputs.columns), wave_, stage.outputs, sums,
                                                  scale_, into(stage.weights + stage.weight_floats())),
                        "stepping a bias"));
  }
  return {};
}

// Through the activation, with its sums for the bias, and to the stage before.
Status Step::backward_through(const ModelStage& stage, std::uint32_t which, bool has_input_gradient) const {
  const TrainingLaunches& launches = *needs_.launches;
  const std::uint64_t rows = std::uint64_t{needs_.memory->room.rows} * stage.outputs.pixels;
  const std::uint64_t units = wave_.devices * ((rows + kSumRows - 1) / kSumRows) * ((stage.outputs.columns + 31) / 32);
  const auto gradient = gradient_of(stage, which);
  GLEANER_TRY(
      started(launches.undo_activation(stream(), blocks_for_units(needs_.engine->driver(), units), wave_, stage.outputs,
                                       read(output_of(stage)), gradient,
                                       {needs_.memory->sums.data(), sum_floats(*needs_.layout, needs_.memory->room)}),
              "taking a gradient through an activation"));
  if (!has_input_gradient) return {};
  const bool convolves = stage.kind == LayerKind::convolution;
  const auto before = input_gradient_of(stage, 1 - which);
  GLEANER_TRY(needs_.products->multiply(stream(), wave_,
                                        {.left = {read(gradient)},
                                         .right = {read(needs_.memory->model_at(stage.weights)), 1},
                                         .result = convolves ? unrolled_of(stage) : before,
                                         .rows = static_cast<std::uint32_t>(rows),
                                         .columns = stage.inputs,
                                         .inner = stage.outputs.columns,
                                         .of_a_row = stage.outputs.pixels}));
  if (!convolves) return {};
  return started(launches.roll_up(stream(), blocks_of_rows(stage.from_floats), wave_, stage.windows,
                                  read(unrolled_of(stage)), before),
                 "rolling windows up");
}

}  // namespace gleaner::cuda
