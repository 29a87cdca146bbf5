#include "benchmarks/training/blas_network.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/check.hpp"
#include "training/blas.hpp"
#include "training/models/models.hpp"

namespace gleaner::bench {
namespace {

// As many images as make half a megabyte of windows are unrolled at once: more is slower, as they leave the cache.
constexpr std::size_t kWindowFloats = 128 * 1024;

std::size_t windows_of(const LayerPlan& plan) { return std::size_t{plan.to.height} * plan.to.width; }
std::size_t images_at_once(const LayerPlan& plan, std::size_t inner) {
  return std::max<std::size_t>(1, kWindowFloats / (windows_of(plan) * inner));
}

void unroll(const LayerPlan& plan, const float* input, std::size_t images, float* to) {
  const std::size_t row = std::size_t{plan.from.width} * plan.from.channels;
  const std::size_t run = std::size_t{plan.kernel} * plan.from.channels;
  for (std::size_t image = 0; image < images; ++image, input += plan.from.size()) {
    for (std::size_t y = 0; y < plan.to.height; ++y) {
      for (std::size_t x = 0; x < plan.to.width; ++x) {
        const float* window = input + y * row + x * plan.from.channels;
        for (std::size_t u = 0; u < plan.kernel; ++u, to += run) std::memcpy(to, window + u * row, run * sizeof(float));
      }
    }
  }
}

void roll_back(const LayerPlan& plan, const float* from, std::size_t images, float* gradient) {
  const std::size_t row = std::size_t{plan.from.width} * plan.from.channels;
  const std::size_t run = std::size_t{plan.kernel} * plan.from.channels;
  std::fill_n(gradient, images * plan.from.size(), 0.0F);
  for (std::size_t image = 0; image < images; ++image, gradient += plan.from.size()) {
    for (std::size_t y = 0; y < plan.to.height; ++y) {
      for (std::size_t x = 0; x < plan.to.width; ++x) {
        float* window = gradient + y * row + x * plan.from.channels;
        for (std::size_t u = 0; u < plan.kernel; ++u, from += run) {
          float* to = window + u * row;
          for (std::size_t i = 0; i < run; ++i) to[i] += from[i];
        }
      }
    }
  }
}

void add_bias(const float* bias, std::size_t outputs, bool relu, float* values, std::size_t rows) {
  for (std::size_t row = 0; row < rows; ++row, values += outputs) {
    for (std::size_t j = 0; j < outputs; ++j) {
      const float sum = values[j] + bias[j];
      values[j] = relu && sum < 0.0F ? 0.0F : sum;
    }
  }
}

template <class Visit>
void for_each_corner(const LayerPlan& plan, std::size_t samples, Visit visit) {
  const std::size_t row = std::size_t{plan.from.width} * plan.from.channels;
  for (std::size_t image = 0; image < samples; ++image) {
    for (std::size_t y = 0; y < plan.to.height; ++y) {
      for (std::size_t x = 0; x < plan.to.width; ++x) {
        visit(image * plan.from.size() + 2 * y * row + 2 * x * plan.from.channels, row);
      }
    }
  }
}

}  // namespace

BlasNetwork::BlasNetwork(const ModelSpec& spec) : spec_(spec) {
  std::size_t first = 0;
  for (const LayerPlan& plan : model_row(spec).layers(spec)) {
    GLEANER_CHECK(plan.padding == 0);
    Stage stage = {.plan = plan, .first = first};
    stage.inner = plan.kind == LayerKind::dense ? plan.from.channels
                                                : std::size_t{plan.kernel} * plan.kernel * plan.from.channels;
    for (const TensorShape& tensor : tensors_of(plan)) first += tensor.size();
    stages_.push_back(std::move(stage));
  }
}

void BlasNetwork::convolve(Stage& stage, const float* parameters, const float* input, std::size_t samples) {
  const LayerPlan& plan = stage.plan;
  const std::size_t at_once = images_at_once(plan, stage.inner);
  for (std::size_t first = 0; first < samples; first += at_once) {
    const std::size_t images = std::min(at_once, samples - first);
    const std::size_t rows = images * windows_of(plan);
    windows_.resize(rows * stage.inner);
    unroll(plan, input + first * plan.from.size(), images, windows_.data());
    multiply({windows_.data()}, {parameters}, stage.output.data() + first * plan.to.size(),
             {rows, plan.to.channels, stage.inner});
  }
}

void BlasNetwork::forward(Stage& stage, const float* parameters, const float* input, std::size_t samples) {
  const LayerPlan& plan = stage.plan;
  const std::size_t outputs = plan.to.channels;
  stage.output.resize(samples * plan.to.size());
  if (plan.kind == LayerKind::max_pool) {
    stage.winners.resize(stage.output.size());
    std::size_t at = 0;
    for_each_corner(plan, samples, [&](std::size_t corner, std::size_t row) {
      for (std::size_t c = 0; c < outputs; ++c, ++at) {
        const float* first = input + corner + c;
        const float values[4] = {first[0], first[outputs], first[row], first[row + outputs]};
        std::uint32_t best = 0;
        for (std::uint32_t i = 1; i < 4; ++i) best = values[i] > values[best] ? i : best;
        stage.output[at] = values[best];
        stage.winners[at] = best;
      }
    });
    return;
  }
  if (plan.kind == LayerKind::convolution) {
    convolve(stage, parameters, input, samples);
  } else {
    multiply({input}, {parameters}, stage.output.data(), {samples, outputs, stage.inner});
  }
  add_bias(parameters + stage.inner * outputs, outputs, plan.activation == Activation::relu, stage.output.data(),
           stage.output.size() / outputs);
}

void BlasNetwork::convolve_back(Stage& stage, float* parameters, const float* input, float* input_gradient,
                                std::size_t samples, float rate) {
  const LayerPlan& plan = stage.plan;
  const std::size_t at_once = images_at_once(plan, stage.inner);
  const auto groups = [&](auto work) {
    for (std::size_t first = 0; first < samples; first += at_once) {
      const std::size_t images = std::min(at_once, samples - first);
      windows_.resize(images * windows_of(plan) * stage.inner);
      work(first, images, images * windows_of(plan));
    }
  };
  if (input_gradient != nullptr) {
    groups([&](std::size_t first, std::size_t images, std::size_t rows) {
      multiply({stage.gradient.data() + first * plan.to.size()}, {parameters, Transpose::yes}, windows_.data(),
               {rows, stage.inner, plan.to.channels});
      roll_back(plan, windows_.data(), images, input_gradient + first * plan.from.size());
    });
  }
  groups([&](std::size_t first, std::size_t images, std::size_t rows) {
    unroll(plan, input + first * plan.from.size(), images, windows_.data());
    multiply({windows_.data(), Transpose::yes}, {stage.gradient.data() + first * plan.to.size()}, parameters,
             {stage.inner, plan.to.channels, rows}, {-rate, 1.0F});
  });
}

void BlasNetwork::backward(Stage& stage, float* parameters, const float* input, float* input_gradient,
                           std::size_t samples, float rate) {
  const LayerPlan& plan = stage.plan;
  const std::size_t outputs = plan.to.channels;
  if (plan.kind == LayerKind::max_pool) {
    std::size_t at = 0;
    for_each_corner(plan, samples, [&](std::size_t corner, std::size_t row) {
      for (std::size_t c = 0; c < outputs; ++c, ++at) {
        float* first = input_gradient + corner + c;
        const std::uint32_t winner = stage.winners[at];
        first[0] = winner == 0 ? stage.gradient[at] : 0.0F;
        first[outputs] = winner == 1 ? stage.gradient[at] : 0.0F;
        first[row] = winner == 2 ? stage.gradient[at] : 0.0F;
        first[row + outputs] = winner == 3 ? stage.gradient[at] : 0.0F;
      }
    });
    return;
  }
  std::vector<float> bias(outputs, 0.0F);
  for (std::size_t i = 0; i < stage.gradient.size(); i += outputs) {
    for (std::size_t j = 0; j < outputs; ++j) {
      const float value = stage.gradient[i + j];
      const bool passes = plan.activation == Activation::none || stage.output[i + j] > 0.0F;
      stage.gradient[i + j] = passes ? value : 0.0F;
      bias[j] += stage.gradient[i + j];
    }
  }
  if (plan.kind == LayerKind::convolution) {
    convolve_back(stage, parameters, input, input_gradient, samples, rate);
  } else {
    if (input_gradient != nullptr) {
      multiply({stage.gradient.data()}, {parameters, Transpose::yes}, input_gradient, {samples, stage.inner, outputs});
    }
    multiply({input, Transpose::yes}, {stage.gradient.data()}, parameters, {stage.inner, outputs, samples},
             {-rate, 1.0F});
  }
  for (std::size_t j = 0; j < outputs; ++j) parameters[stage.inner * outputs + j] -= rate * bias[j];
}

double BlasNetwork::step(std::span<float> parameters, std::span<const float> inputs,
                         std::span<const std::uint8_t> labels, float learning_rate) {
  const std::size_t samples = labels.size();
  const float* from = inputs.data();
  for (Stage& stage : stages_) {
    forward(stage, parameters.data() + stage.first, from, samples);
    from = stage.output.data();
  }
  Stage& last = stages_.back();
  last.gradient.resize(last.output.size());
  double loss = 0.0;
  for (std::size_t i = 0; i < samples; ++i) {
    const std::span<const float> scores = std::span(last.output).subspan(i * spec_.classes, spec_.classes);
    const float largest = *std::ranges::max_element(scores);
    float sum = 0.0F;
    for (const float score : scores) sum += std::exp(score - largest);
    for (std::size_t c = 0; c < spec_.classes; ++c) {
      const float share = std::exp(scores[c] - largest) / sum - (c == labels[i] ? 1.0F : 0.0F);
      last.gradient[i * spec_.classes + c] = share / static_cast<float>(samples);
    }
    loss += std::log(double{sum}) - double{scores[labels[i]] - largest};
  }
  for (std::size_t i = stages_.size(); i-- > 0;) {
    float* input_gradient = nullptr;
    if (i > 0) {
      stages_[i - 1].gradient.resize(stages_[i - 1].output.size());
      input_gradient = stages_[i - 1].gradient.data();
    }
    backward(stages_[i], parameters.data() + stages_[i].first, i > 0 ? stages_[i - 1].output.data() : inputs.data(),
             input_gradient, samples, learning_rate);
  }
  return loss / static_cast<double>(samples);
}

}  // namespace gleaner::bench
