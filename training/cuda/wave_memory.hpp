#pragma once
// The device memory of a wave: every array of every slot. Buffers keep their places, so that graphs stay valid.

#include <array>

#include "kernels/cuda/engine.hpp"
#include "training/cuda/layout.hpp"

namespace gleaner::cuda {

struct WaveMemory {
  // Errors: out of memory, or the device failed.
  static Result<WaveMemory> create(Engine& engine, const Layout& layout, const Room& room, std::uint32_t slots);

  // Of its first `devices` slots.
  Wave wave(std::uint32_t devices, bool whole) const;
  Strided<float> model_at(std::uint64_t first) const { return {model.data() + first, parameters}; }
  Strided<float> gradient_at(std::uint64_t first) const { return {gradient.data() + first, parameters}; }
  Strided<const float> start_of_all() const { return {start.data(), room.has_own_start ? parameters : 0}; }

  Room room;
  std::uint32_t slots = 0;
  std::uint64_t parameters = 0;
  Buffer<float> model;
  Buffer<float> start;
  Buffer<float> gradient;
  Buffer<float> velocity;
  Buffer<float> inputs;
  Buffer<std::uint8_t> labels;
  Buffer<float> outputs;  // a stage after the other, each of all slots
  std::array<Buffer<float>, 2> gradients;
  Buffer<float> unrolled;
  Buffer<std::uint8_t> winners;  // as outputs
  Buffer<float> sums;
  Buffer<double> row_losses;
  Buffer<Part> plan;
  Buffer<Part> now;
  Buffer<Progress> progress;
  Buffer<Settings> settings;
  Buffer<std::uint64_t> order_first;
  Buffer<std::uint32_t> order;
};

}  // namespace gleaner::cuda
