#include <algorithm>
#include <vector>

#include "training/layers.hpp"
#include "training/small_products.hpp"

namespace gleaner {
namespace {

// An image with zeros around it; the zeros are written once.
class PaddedImage {
 public:
  PaddedImage(const ImageShape& inner, std::size_t border)
      : rows_(inner.height),
        row_floats_(std::size_t{inner.width} * inner.channels),
        border_floats_(border * inner.channels),
        padded_row_(row_floats_ + 2 * border_floats_),
        border_(border) {
    if (border != 0) values_.resize((rows_ + 2 * border) * padded_row_, 0.0F);
  }

  std::size_t row() const { return padded_row_; }

  const float* pad(const float* image) {
    if (border_ == 0) return image;
    float* to = values_.data() + border_ * padded_row_ + border_floats_;
    for (std::size_t y = 0; y < rows_; ++y, image += row_floats_, to += padded_row_) {
      std::copy_n(image, row_floats_, to);
    }
    return values_.data();
  }

 private:
  std::size_t rows_;
  std::size_t row_floats_;
  std::size_t border_floats_;
  std::size_t padded_row_;
  std::size_t border_;
  std::vector<float> values_;
};

// Image by image, so that one stays in the cache. The gradient of the input is a convolution too: of the output's
// gradient, with zeros around it, by the weights turned by half a turn.
class Convolution final : public Layer {
 public:
  explicit Convolution(const LayerPlan& plan)
      : from_(plan.from),
        to_(plan.to),
        activation_(plan.activation),
        image_(plan.from, plan.padding),
        gradient_(plan.to, plan.kernel - 1 - plan.padding),
        forward_{to_.height, to_.width, from_.channels, image_.row(), plan.kernel, to_.channels},
        backward_{from_.height, from_.width, to_.channels, gradient_.row(), plan.kernel, from_.channels},
        weights_(forward_.window() * to_.channels),
        bias_sums_(to_.channels) {}

  void forward(std::span<const float> parameters, const float* input, float* output, std::size_t batch) override {
    packed_.resize(std::max(packed_size(forward_), packed_size(backward_)));
    pack_weights(parameters.data(), packed_.data(), forward_);
    const float* bias = parameters.data() + weights_.size();
    for (std::size_t i = 0; i < batch; ++i) {
      convolve(image_.pad(input + i * from_.size()), packed_.data(), bias, output + i * to_.size(), forward_);
    }
  }

  void backward(std::span<const float> parameters, const Activations& activations, std::size_t batch,
                const GradientTarget& target) override {
    const bool wanted = activations.input_gradient != nullptr;
    if (wanted) {
      turn_weights(parameters.data());
      pack_weights(weights_.data(), packed_.data(), backward_);
    }
    const std::size_t pixels = std::size_t{to_.height} * to_.width;
    std::ranges::fill(bias_sums_, 0.0F);
    weights_sums_.resize(weights_.size());
    for (std::size_t i = 0; i < batch; ++i) {
      float* gradient = activations.output_gradient + i * to_.size();
      add_undone(activations.output + i * to_.size(), gradient, pixels);
      if (wanted) {
        convolve(gradient_.pad(gradient), packed_.data(), nullptr, activations.input_gradient + i * from_.size(),
                 backward_);
      }
      sum_weight_gradient(image_.pad(activations.input + i * from_.size()), gradient, weights_sums_.data(), forward_,
                          i == 0 ? Sum::start : Sum::add);
    }
    blend_into(target, 0, weights_sums_);
    blend_into(target, weights_.size(), bias_sums_);
  }

 private:
  void add_undone(const float* output, float* gradient, std::size_t pixels) {
    image_bias_.resize(bias_sums_.size());
    undo_activation(activation_, output, gradient, image_bias_, pixels);
    for (std::size_t j = 0; j < bias_sums_.size(); ++j) bias_sums_[j] += image_bias_[j];
  }

  // [u][v][c][o] to [k - 1 - u][k - 1 - v][o][c].
  void turn_weights(const float* weights) {
    const std::size_t inputs = from_.channels;
    const std::size_t outputs = to_.channels;
    const std::size_t places = forward_.kernel * forward_.kernel;
    for (std::size_t place = 0; place < places; ++place) {
      float* to = weights_.data() + (places - 1 - place) * inputs * outputs;
      for (std::size_t c = 0; c < inputs; ++c) {
        for (std::size_t o = 0; o < outputs; ++o) to[o * inputs + c] = *weights++;
      }
    }
  }

  ImageShape from_;
  ImageShape to_;
  Activation activation_;
  PaddedImage image_;
  PaddedImage gradient_;
  WindowShape forward_;
  WindowShape backward_;
  std::vector<float> weights_;  // turned
  std::vector<float> packed_;
  std::vector<float> weights_sums_;
  std::vector<float> bias_sums_;
  std::vector<float> image_bias_;
};

}  // namespace

std::unique_ptr<Layer> make_convolution(const LayerPlan& plan) { return std::make_unique<Convolution>(plan); }

}  // namespace gleaner
