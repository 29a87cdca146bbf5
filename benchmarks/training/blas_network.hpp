#pragma once
// What a user would write with a BLAS library: layers on whole batches, windows unrolled (im2col), every product a
// call. The peer of the trainer, for the models of the table; softmax regression to CNN. One thread.

#include <cstdint>
#include <span>
#include <vector>

#include "training/layer_plan.hpp"
#include "training/model.hpp"

namespace gleaner::bench {

class BlasNetwork {
 public:
  explicit BlasNetwork(const ModelSpec& spec);

  // One step of SGD on a batch, gathered; samples x inputs. Returns the mean loss.
  double step(std::span<float> parameters, std::span<const float> inputs, std::span<const std::uint8_t> labels,
              float learning_rate);

 private:
  struct Stage {
    LayerPlan plan;
    std::size_t first = 0;  // of its parameters
    std::size_t inner = 0;  // rows of its weights
    std::vector<float> output;
    std::vector<float> gradient;
    std::vector<std::uint32_t> winners;
  };

  void forward(Stage& stage, const float* parameters, const float* input, std::size_t samples);
  void backward(Stage& stage, float* parameters, const float* input, float* input_gradient, std::size_t samples,
                float rate);
  void convolve(Stage& stage, const float* parameters, const float* input, std::size_t samples);
  void convolve_back(Stage& stage, float* parameters, const float* input, float* input_gradient, std::size_t samples,
                     float rate);

  ModelSpec spec_;
  std::vector<Stage> stages_;
  std::vector<float> windows_;
};

}  // namespace gleaner::bench
