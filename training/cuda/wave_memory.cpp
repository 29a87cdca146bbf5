#include "training/cuda/wave_memory.hpp"

#include <utility>

namespace gleaner::cuda {

Result<WaveMemory> WaveMemory::create(Engine& engine, const Layout& layout, const Room& room, std::uint32_t slots) {
  const ArrayBytes bytes = array_bytes(layout, room, slots);
  WaveMemory memory;
  memory.room = room;
  memory.slots = slots;
  memory.parameters = layout.parameters;
  for (const auto& [buffer, size] : {std::pair(&memory.model, bytes.model),
                                     {&memory.start, bytes.start},
                                     {&memory.gradient, bytes.gradient},
                                     {&memory.velocity, bytes.velocity},
                                     {&memory.inputs, bytes.inputs},
                                     {&memory.outputs, bytes.outputs},
                                     {&memory.gradients[0], bytes.gradients},
                                     {&memory.gradients[1], bytes.gradients},
                                     {&memory.unrolled, bytes.unrolled},
                                     {&memory.sums, bytes.sums}}) {
    GLEANER_ASSIGN(*buffer, engine.allocate<float>(size / sizeof(float)));
  }
  GLEANER_ASSIGN(memory.labels, engine.allocate<std::uint8_t>(bytes.labels));
  GLEANER_ASSIGN(memory.winners, engine.allocate<std::uint8_t>(bytes.winners));
  GLEANER_ASSIGN(memory.row_losses, engine.allocate<double>(bytes.row_losses / sizeof(double)));
  GLEANER_ASSIGN(memory.plan, engine.allocate<Part>(std::size_t{slots} * room.parts));
  GLEANER_ASSIGN(memory.now, engine.allocate<Part>(slots));
  GLEANER_ASSIGN(memory.progress, engine.allocate<Progress>(slots));
  GLEANER_ASSIGN(memory.settings, engine.allocate<Settings>(slots));
  GLEANER_ASSIGN(memory.order_first, engine.allocate<std::uint64_t>(slots));
  GLEANER_ASSIGN(memory.order, engine.allocate<std::uint32_t>(slots * room.order));
  return memory;
}

Wave WaveMemory::wave(std::uint32_t devices, bool whole) const {
  return {.devices = devices,
          .rows = room.rows,
          .whole = whole ? 1U : 0U,
          .parts = room.parts,
          .plan = plan.data(),
          .now = now.data(),
          .progress = progress.data(),
          .settings = settings.data(),
          .order_first = order_first.data(),
          .order = order.data()};
}

}  // namespace gleaner::cuda
