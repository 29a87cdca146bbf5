#include "training/layers.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/check.hpp"
#include "training/blas.hpp"

namespace gleaner {
namespace {

// Rows of outputs = inputs x weights + bias, one product over all rows, and its parts backwards. The weights are inputs
// x outputs and the bias follows them. Convolutions use it on unrolled windows.
class Affine {
 public:
  Affine(std::size_t inputs, std::size_t outputs, Activation activation)
      : inputs_(inputs), outputs_(outputs), activation_(activation), bias_gradient_(outputs) {}

  void forward(std::span<const float> parameters, const float* input, float* output, std::size_t rows) const {
    multiply({input}, {parameters.data()}, output, {rows, outputs_, inputs_});
    const float* bias = parameters.data() + inputs_ * outputs_;
    for (std::size_t row = 0; row < rows; ++row, output += outputs_) {
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

  // First of backward: takes the gradient back through the activation function, in place, and sums it for the bias.
  void undo_activation(const float* output, float* gradient, std::size_t rows) {
    std::ranges::fill(bias_gradient_, 0.0F);
    float* sums = bias_gradient_.data();
    for (std::size_t row = 0; row < rows; ++row, gradient += outputs_, output += outputs_) {
      if (activation_ == Activation::relu) {
        // Read before the choice: a load on one side only is a jump and not a vector instruction.
        for (std::size_t j = 0; j < outputs_; ++j) {
          const float value = gradient[j];
          gradient[j] = output[j] > 0.0F ? value : 0.0F;
        }
      }
      for (std::size_t j = 0; j < outputs_; ++j) sums[j] += gradient[j];
    }
  }

  void input_gradient(std::span<const float> parameters, const float* gradient, float* out, std::size_t rows) const {
    multiply({gradient}, {parameters.data(), Transpose::yes}, out, {rows, inputs_, outputs_});
  }

  void weight_gradient(const float* input, const float* gradient, std::size_t rows,
                       const GradientTarget& target) const {
    multiply({input, Transpose::yes}, {gradient}, target.into.data(), {inputs_, outputs_, rows},
             {target.scale, target.keep});
  }

  void bias_gradient(const GradientTarget& target) const {
    float* bias = target.into.data() + inputs_ * outputs_;
    for (std::size_t j = 0; j < outputs_; ++j) {
      bias[j] = (target.keep == 0.0F ? 0.0F : target.keep * bias[j]) + target.scale * bias_gradient_[j];
    }
  }

 private:
  std::size_t inputs_;
  std::size_t outputs_;
  Activation activation_;
  std::vector<float> bias_gradient_;
};

class Dense final : public Layer {
 public:
  explicit Dense(const LayerPlan& plan) : affine_(plan.from.channels, plan.to.channels, plan.activation) {}

  void forward(std::span<const float> parameters, const float* input, float* output, std::size_t batch) override {
    affine_.forward(parameters, input, output, batch);
  }

  void backward(std::span<const float> parameters, const Activations& activations, std::size_t batch,
                const GradientTarget& target) override {
    float* gradient = activations.output_gradient;
    affine_.undo_activation(activations.output, gradient, batch);
    if (activations.input_gradient != nullptr) {
      affine_.input_gradient(parameters, gradient, activations.input_gradient, batch);
    }
    affine_.weight_gradient(activations.input, gradient, batch, target);
    affine_.bias_gradient(target);
  }

 private:
  Affine affine_;
};

// A convolution as a product over unrolled windows (im2col): one row a window, kernel rows of kernel x channels floats.
// Only as many images as fit the cache are unrolled at once, and again for the weight gradient: that is faster than
// keeping all windows of a batch, and takes no memory worth speaking of.
class Convolution final : public Layer {
 public:
  explicit Convolution(const LayerPlan& plan)
      : from_(plan.from),
        to_(plan.to),
        kernel_(plan.kernel),
        run_(std::size_t{plan.kernel} * plan.from.channels),
        windows_per_image_(std::size_t{to_.height} * to_.width),
        image_floats_(windows_per_image_ * run_ * kernel_),
        images_at_once_(std::max<std::size_t>(1, kScratchBytes / sizeof(float) / image_floats_)),
        affine_(run_ * kernel_, plan.to.channels, plan.activation) {}

  void forward(std::span<const float> parameters, const float* input, float* output, std::size_t batch) override {
    for_each_group(batch, [&](std::size_t first, std::size_t images) {
      unroll(input + first * from_.size(), images);
      affine_.forward(parameters, windows_.data(), output + first * to_.size(), images * windows_per_image_);
    });
  }

  void backward(std::span<const float> parameters, const Activations& activations, std::size_t batch,
                const GradientTarget& target) override {
    float* gradient = activations.output_gradient;
    affine_.undo_activation(activations.output, gradient, batch * windows_per_image_);
    if (activations.input_gradient != nullptr) {
      for_each_group(batch, [&](std::size_t first, std::size_t images) {
        windows_.resize(images * image_floats_);
        affine_.input_gradient(parameters, gradient + first * to_.size(), windows_.data(), images * windows_per_image_);
        roll_back(activations.input_gradient + first * from_.size(), images);
      });
    }
    // After all input gradients: the target may be the parameters.
    for_each_group(batch, [&](std::size_t first, std::size_t images) {
      unroll(activations.input + first * from_.size(), images);
      affine_.weight_gradient(windows_.data(), gradient + first * to_.size(), images * windows_per_image_,
                              {target.into, target.scale, first == 0 ? target.keep : 1.0F});
    });
    affine_.bias_gradient(target);
  }

 private:
  static constexpr std::size_t kScratchBytes = 256 * 1024;  // half of a small second-level cache

  template <class Work>
  void for_each_group(std::size_t batch, Work work) const {
    for (std::size_t first = 0; first < batch; first += images_at_once_) {
      work(first, std::min(images_at_once_, batch - first));
    }
  }

  void unroll(const float* input, std::size_t images) {
    windows_.resize(images * image_floats_);
    // A copy of known length is a few instructions, of unknown length a call: the first layer of a grey image is all
    // short copies.
    run_ == 5 ? unroll_runs<5>(input, images) : unroll_runs<0>(input, images);
  }

  template <std::size_t kRun>
  void unroll_runs(const float* input, std::size_t images) {
    const std::size_t run = kRun == 0 ? run_ : kRun;
    const std::size_t row = std::size_t{from_.width} * from_.channels;
    float* to = windows_.data();
    for (std::size_t image = 0; image < images; ++image, input += from_.size()) {
      for (std::size_t y = 0; y < to_.height; ++y) {
        for (std::size_t x = 0; x < to_.width; ++x) {
          const float* window = input + y * row + x * from_.channels;
          for (std::size_t u = 0; u < kernel_; ++u, to += run) std::memcpy(to, window + u * row, run * sizeof(float));
        }
      }
    }
  }

  // Every pixel collects the gradients of all windows that it was in.
  void roll_back(float* gradient, std::size_t images) const {
    const std::size_t row = std::size_t{from_.width} * from_.channels;
    const float* from = windows_.data();
    std::fill_n(gradient, images * from_.size(), 0.0F);
    for (std::size_t image = 0; image < images; ++image, gradient += from_.size()) {
      for (std::size_t y = 0; y < to_.height; ++y) {
        for (std::size_t x = 0; x < to_.width; ++x) {
          float* window = gradient + y * row + x * from_.channels;
          for (std::size_t u = 0; u < kernel_; ++u, from += run_) {
            float* to = window + u * row;
            for (std::size_t i = 0; i < run_; ++i) to[i] += from[i];
          }
        }
      }
    }
  }

  ImageShape from_;
  ImageShape to_;
  std::size_t kernel_;
  std::size_t run_;  // floats that lie together in one row of a window
  std::size_t windows_per_image_;
  std::size_t image_floats_;  // of all windows of one image
  std::size_t images_at_once_;
  Affine affine_;
  std::vector<float> windows_;  // of one group, or their gradients
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

std::unique_ptr<Layer> make_layer(const LayerPlan& plan) {
  switch (plan.kind) {
    case LayerKind::dense: return std::make_unique<Dense>(plan);
    case LayerKind::convolution: return std::make_unique<Convolution>(plan);
    case LayerKind::max_pool: return std::make_unique<MaxPool>(plan);
  }
  GLEANER_CHECK(false);
  return nullptr;
}

}  // namespace gleaner
