#include "training/layers.hpp"

#include <algorithm>
#include <vector>

#include "common/check.hpp"
#include "training/blas.hpp"
#include "training/small_products.hpp"

namespace gleaner {
namespace {

// Rows of outputs = inputs x weights + bias; the weights are inputs x outputs and the bias follows them. A library
// multiplies large batches, small ones are multiplied here.
class Dense final : public Layer {
 public:
  explicit Dense(const LayerPlan& plan)
      : inputs_(plan.from.channels), outputs_(plan.to.channels), activation_(plan.activation), bias_sums_(outputs_) {}

  void forward(std::span<const float> parameters, const float* input, float* output, std::size_t batch) override {
    if (batch <= kSmallRows) {
      dense_forward(input, parameters.data(), output, {batch, inputs_, outputs_});
    } else {
      multiply({input}, {parameters.data()}, output, {batch, outputs_, inputs_});
    }
    const float* bias = parameters.data() + inputs_ * outputs_;
    for (std::size_t row = 0; row < batch; ++row, output += outputs_) {
      if (activation_ == Activation::relu) {
        // Written so that NaN passes through and is seen in the loss.
        for (std::size_t j = 0; j < outputs_; ++j) {
          const float sum = output[j] + bias[j];
          output[j] = sum < 0.0F ? 0.0F : sum;
        }
      } else {
        for (std::size_t j = 0; j < outputs_; ++j) output[j] += bias[j];
      }
    }
  }

  void backward(std::span<const float> parameters, const Activations& activations, std::size_t batch,
                const GradientTarget& target) override {
    float* gradient = activations.output_gradient;
    undo_activation(activation_, activations.output, gradient, bias_sums_, batch);
    if (activations.input_gradient != nullptr) {
      if (batch <= kSmallRows) {
        dense_input_gradient(gradient, parameters.data(), activations.input_gradient, {batch, inputs_, outputs_});
      } else {
        multiply({gradient}, {parameters.data(), Transpose::yes}, activations.input_gradient,
                 {batch, inputs_, outputs_});
      }
    }
    if (batch <= kSmallRows) {
      dense_weight_gradient(activations.input, gradient, target.into.data(), {batch, inputs_, outputs_},
                            {target.scale, target.keep});
    } else {
      multiply({activations.input, Transpose::yes}, {gradient}, target.into.data(), {inputs_, outputs_, batch},
               {target.scale, target.keep});
    }
    blend_into(target, inputs_ * outputs_, bias_sums_);
  }

 private:
  std::size_t inputs_;
  std::size_t outputs_;
  Activation activation_;
  std::vector<float> bias_sums_;
};

class MaxPool final : public Layer {
 public:
  explicit MaxPool(const LayerPlan& plan) : from_(plan.from), to_(plan.to) {}

  void forward(std::span<const float>, const float* input, float* output, std::size_t batch) override {
    winners_.resize(batch * to_.size());
    std::uint32_t* winner = winners_.data();
    const std::size_t channels = from_.channels;
    for_each_window(batch, [&](std::size_t corner) {
      const float* first = input + corner;
      const float* second = first + std::size_t{from_.width} * channels;
      for (std::size_t c = 0; c < channels; ++c) {
        float best = first[c];
        std::uint32_t at = 0;
        // The first of equals wins; NaN in any place but the first loses here, and the parameters are checked later.
        const auto challenge = [&](float value, std::uint32_t place) {
          at = value > best ? place : at;
          best = value > best ? value : best;
        };
        challenge(first[channels + c], 1);
        challenge(second[c], 2);
        challenge(second[channels + c], 3);
        output[c] = best;
        winner[c] = at;
      }
      output += channels;
      winner += channels;
    });
  }

  void backward(std::span<const float>, const Activations& activations, std::size_t batch,
                const GradientTarget&) override {
    if (activations.input_gradient == nullptr) return;
    if (from_.height % 2 != 0 || from_.width % 2 != 0) {
      std::fill_n(activations.input_gradient, batch * from_.size(), 0.0F);
    }
    const float* gradient = activations.output_gradient;
    const std::uint32_t* winner = winners_.data();
    const std::size_t channels = from_.channels;
    for_each_window(batch, [&](std::size_t corner) {
      float* first = activations.input_gradient + corner;
      float* second = first + std::size_t{from_.width} * channels;
      for (std::size_t c = 0; c < channels; ++c) {
        const float value = gradient[c];
        const std::uint32_t place = winner[c];
        first[c] = place == 0 ? value : 0.0F;
        first[channels + c] = place == 1 ? value : 0.0F;
        second[c] = place == 2 ? value : 0.0F;
        second[channels + c] = place == 3 ? value : 0.0F;
      }
      gradient += channels;
      winner += channels;
    });
  }

 private:
  template <class Visit>
  void for_each_window(std::size_t batch, Visit visit) const {
    const std::size_t row = std::size_t{from_.width} * from_.channels;
    for (std::size_t image = 0; image < batch; ++image) {
      for (std::size_t y = 0; y < to_.height; ++y) {
        for (std::size_t x = 0; x < to_.width; ++x) {
          visit(image * from_.size() + 2 * y * row + 2 * x * from_.channels);
        }
      }
    }
  }

  ImageShape from_;
  ImageShape to_;
  std::vector<std::uint32_t> winners_;  // 0 to 3, row by row in the window
};

}  // namespace

void undo_activation(Activation activation, const float* output, float* gradient, std::span<float> sums,
                     std::size_t rows) {
  std::ranges::fill(sums, 0.0F);
  for (std::size_t row = 0; row < rows; ++row, gradient += sums.size(), output += sums.size()) {
    if (activation == Activation::relu) {
      // Read before the choice: a load on one side only is a jump and not a vector instruction.
      for (std::size_t j = 0; j < sums.size(); ++j) {
        const float value = gradient[j];
        gradient[j] = output[j] > 0.0F ? value : 0.0F;
      }
    }
    for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += gradient[j];
  }
}

void blend_into(const GradientTarget& target, std::size_t first, std::span<const float> gradient) {
  float* into = target.into.data() + first;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    into[i] = (target.keep == 0.0F ? 0.0F : target.keep * into[i]) + target.scale * gradient[i];
  }
}

std::unique_ptr<Layer> make_layer(const LayerPlan& plan) {
  switch (plan.kind) {
    case LayerKind::dense: return std::make_unique<Dense>(plan);
    case LayerKind::convolution: return make_convolution(plan);
    case LayerKind::max_pool: return std::make_unique<MaxPool>(plan);
  }
  GLEANER_CHECK(false);
  return nullptr;
}

}  // namespace gleaner
