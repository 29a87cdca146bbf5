#pragma once
// The launches of one step of a wave, in order: samples in, forward, loss, backward, the step, the books.

#include "kernels/cuda/engine.hpp"
#include "training/cuda/products.hpp"
#include "training/cuda/wave_memory.hpp"

namespace gleaner::cuda {

class Step {
 public:
  struct Needs {
    Engine* engine = nullptr;
    Products* products = nullptr;
    const TrainingLaunches* launches = nullptr;
    const Layout* layout = nullptr;
    const WaveMemory* memory = nullptr;
    Samples samples;
  };
  // learning_rate: of all slots alike, where the products step straight into the models; else the wave has a gradient.
  Step(const Needs& needs, std::uint32_t devices, float learning_rate);

  Status enqueue() const;
  Status enqueue_beginning() const;  // before the first: what every slot does in it
  Status enqueue_end() const;        // after the last: the deltas

 private:
  Status forward() const;
  Status backward() const;
  Status backward_through(const ModelStage& stage, std::uint32_t which, bool has_input_gradient) const;
  Strided<float> output_of(const ModelStage& stage) const;
  Strided<const float> input_of(std::size_t stage) const;
  Strided<std::uint8_t> winners_of(const ModelStage& stage) const;
  Strided<float> gradient_of(const ModelStage& stage, std::uint32_t which) const;
  Strided<float> input_gradient_of(const ModelStage& stage, std::uint32_t which) const;
  Strided<float> unrolled_of(const ModelStage& stage) const;
  unsigned blocks(std::uint64_t entries) const;
  unsigned blocks_of_rows(std::uint64_t floats) const { return blocks(floats * needs_.memory->room.rows); }
  Status started(Driver::Code code, std::string_view doing) const { return needs_.engine->done(code, doing); }
  Driver::Stream stream() const { return needs_.engine->stream(); }

  Needs needs_;
  Wave wave_;
  bool direct_;
  float scale_;  // of what goes into the model or the gradient
};

}  // namespace gleaner::cuda
