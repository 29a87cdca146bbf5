#include "training/cuda/layout.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/check.hpp"
#include "kernels/cuda/engine.hpp"
#include "training/models/models.hpp"

namespace gleaner::cuda {
namespace {

Image image_of(const ImageShape& shape) { return {shape.height, shape.width, shape.channels}; }

std::uint64_t chunks_of(std::uint64_t rows) { return (rows + kSumRows - 1) / kSumRows; }

}  // namespace

Layout layout_of(const ModelSpec& spec) {
  GLEANER_CHECK(check_spec(spec).has_value());
  Layout layout;
  layout.features = spec.inputs;
  layout.classes = spec.classes;
  std::uint64_t parameters = 0;
  for (const LayerPlan& plan : model_row(spec).layers(spec)) {
    ModelStage stage = {.kind = plan.kind,
                        .weights = parameters,
                        .from_floats = plan.from.size(),
                        .to_floats = plan.to.size(),
                        .first_output = layout.output_floats,
                        .first_winner = layout.winner_bytes};
    stage.outputs = {.pixels = plan.to.height * plan.to.width,
                     .columns = plan.to.channels,
                     .relu = plan.activation == Activation::relu ? 1U : 0U};
    stage.windows = {
        .from = image_of(plan.from), .to = image_of(plan.to), .kernel = plan.kernel, .padding = plan.padding};
    if (plan.kind == LayerKind::dense) stage.inputs = plan.from.channels;
    if (plan.kind == LayerKind::convolution) {
      stage.inputs = plan.kernel * plan.kernel * plan.from.channels;
      layout.unrolled_floats = std::max(layout.unrolled_floats, stage.window_floats());
    }
    if (plan.kind == LayerKind::max_pool) layout.winner_bytes += stage.to_floats;
    for (const TensorShape& tensor : tensors_of(plan)) parameters += tensor.size();
    layout.output_floats += stage.to_floats;
    layout.gradient_floats = std::max(layout.gradient_floats, stage.to_floats);
    layout.stages.push_back(stage);
  }
  layout.parameters = static_cast<std::uint32_t>(parameters);
  return layout;
}

std::uint64_t sum_floats(const Layout& layout, const Room& room) {
  std::uint64_t most = 0;
  for (const ModelStage& stage : layout.stages) {
    if (!stage.multiplies()) continue;
    most = std::max(most, chunks_of(std::uint64_t{room.rows} * stage.outputs.pixels) * stage.outputs.columns);
  }
  return most;
}

ArrayBytes array_bytes(const Layout& layout, const Room& room, std::uint64_t slots) {
  const std::uint64_t rows = slots * room.rows;
  const std::uint64_t model = slots * layout.parameters * sizeof(float);
  return {.model = model,
          .start = room.has_own_start ? model : layout.parameters * sizeof(float),
          .gradient = room.has_gradient ? model : 0,
          .velocity = room.has_velocity ? model : 0,
          .inputs = rows * layout.features * sizeof(float),
          .labels = rows,
          .outputs = rows * layout.output_floats * sizeof(float),
          .gradients = rows * layout.gradient_floats * sizeof(float),
          .unrolled = rows * layout.unrolled_floats * sizeof(float),
          .winners = rows * layout.winner_bytes,
          .sums = slots * sum_floats(layout, room) * sizeof(float),
          .row_losses = rows * sizeof(double),
          .tables = slots * (sizeof(Progress) + sizeof(std::uint64_t) + sizeof(Part) + sizeof(Settings) +
                             room.parts * sizeof(Part) + room.order * sizeof(std::uint32_t))};
}

std::uint64_t memory_bytes(const Layout& layout, const Room& room, std::uint64_t slots) {
  const ArrayBytes bytes = array_bytes(layout, room, slots);
  std::uint64_t sum = 0;
  for (const std::uint64_t size :
       {bytes.model, bytes.start, bytes.gradient, bytes.velocity, bytes.inputs, bytes.labels, bytes.outputs,
        bytes.gradients, bytes.gradients, bytes.unrolled, bytes.winners, bytes.sums, bytes.row_losses,
        slots * sizeof(Progress), slots * sizeof(std::uint64_t), slots * sizeof(Part), slots * sizeof(Settings),
        slots * room.parts * sizeof(Part), slots * room.order * sizeof(std::uint32_t)}) {
    sum += Pool::rounded(size);
  }
  return sum;
}

std::uint64_t slots_bytes(const Layout& layout, const Room& room, std::uint64_t slots) {
  std::uint64_t sum = memory_bytes(layout, room, slots);
  if (room.selects != 0) {
    sum += Pool::rounded(slots * layout.parameters * sizeof(float)) +
           Engine::selection_bytes(slots, layout.parameters, room.selects);
  }
  return sum;
}

Status check_room(const Layout& layout, const Room& room) {
  // A half of what 32 bits count: spans end a little behind the last entry.
  constexpr std::uint64_t kEntriesMax = std::uint64_t{1} << 31;
  std::uint64_t most = std::max<std::uint64_t>({layout.features, layout.gradient_floats, layout.unrolled_floats});
  for (const ModelStage& stage : layout.stages) most = std::max(most, stage.from_floats);
  if (most * room.rows < kEntriesMax) return {};
  return fail(ErrorCode::bad_input,
              fmt::format("GPU: a batch of {} samples of {} floats is more than a kernel counts: use a smaller batch",
                          room.rows, most));
}

}  // namespace gleaner::cuda
