#pragma once
// The layers that a network runs, made from their plans. Activations are batch x plan.from.size() and batch x
// plan.to.size() floats. A layer keeps what backward() needs of the last forward(): one object per thread.

#include <cstddef>
#include <memory>
#include <span>

#include "training/layer_plan.hpp"

namespace gleaner {

// Where a gradient goes: into = keep * into + scale * gradient. (1, 0) stores it; (-rate, 1) on the parameters
// themselves is a step of SGD without a pass of its own.
struct GradientTarget {
  std::span<float> into;
  float scale = 1.0F;
  float keep = 0.0F;
};

class Layer {
 public:
  virtual ~Layer() = default;

  virtual void forward(std::span<const float> parameters, const float* input, float* output, std::size_t batch) = 0;

  struct Activations {
    const float* input;
    const float* output;     // of the last forward
    float* output_gradient;  // overwritten where the layer has an activation function
    float* input_gradient;   // null: not wanted
  };
  // After forward() with the same batch. The target may be the parameters: they are read before they change.
  virtual void backward(std::span<const float> parameters, const Activations& activations, std::size_t batch,
                        const GradientTarget& target) = 0;
};

std::unique_ptr<Layer> make_layer(const LayerPlan& plan);
std::unique_ptr<Layer> make_convolution(const LayerPlan& plan);

// First of a layer's backward(): takes the gradient back through the activation function, in place, and adds it up for
// the bias, whose size is a row's.
void undo_activation(Activation activation, const float* output, float* gradient, std::span<float> sums,
                     std::size_t rows);
// The target's entries from `first` on, with this gradient.
void blend_into(const GradientTarget& target, std::size_t first, std::span<const float> gradient);

}  // namespace gleaner
