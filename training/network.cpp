#include "training/network.hpp"

#include <algorithm>
#include <cmath>

#include "common/check.hpp"
#include "training/models/models.hpp"

namespace gleaner {
namespace {

// log(sum of exp(score)) over one sample, shifted by the largest score so that nothing overflows.
struct LogSum {
  float largest;
  float sum;  // of exp(score - largest), at least 1
};

LogSum log_sum_of(std::span<const float> scores) {
  LogSum result = {*std::ranges::max_element(scores), 0.0F};
  for (const float score : scores) result.sum += std::exp(score - result.largest);
  return result;
}

double loss_of(const LogSum& logs, float score_of_label) {
  return std::log(double{logs.sum}) - (double{score_of_label} - double{logs.largest});
}

}  // namespace

Network::Network(const ModelSpec& spec) : spec_(spec) {
  GLEANER_CHECK(check_spec(spec).has_value());
  for (const LayerPlan& plan : model_row(spec).layers(spec)) {
    Stage stage = {make_layer(plan), plan.to.size(), parameter_count_, 0, {}, {}};
    for (const TensorShape& tensor : tensors_of(plan)) stage.parameters += tensor.size();
    parameter_count_ += stage.parameters;
    stages_.push_back(std::move(stage));
  }
}

Batch Network::part_of(const Batch& batch, std::size_t first) const {
  const std::size_t count = std::min(kPartSamples, batch.labels.size() - first);
  return {batch.inputs.subspan(first * spec_.inputs, count * spec_.inputs), batch.labels.subspan(first, count)};
}

void Network::run_forward(std::span<const float> parameters, std::span<const float> inputs) {
  GLEANER_CHECK(parameters.size() == parameter_count_);
  GLEANER_CHECK(inputs.size() % spec_.inputs == 0);
  samples_ = inputs.size() / spec_.inputs;
  const float* from = inputs.data();
  for (Stage& stage : stages_) {
    stage.output.resize(samples_ * stage.outputs);
    stage.layer->forward(parameters.subspan(stage.first_parameter, stage.parameters), from, stage.output.data(),
                         samples_);
    from = stage.output.data();
  }
}

void Network::run_backward(std::span<const float> parameters, std::span<const float> inputs,
                           const GradientTarget& target) {
  for (std::size_t i = stages_.size(); i-- > 0;) {
    Stage& stage = stages_[i];
    float* input_gradient = nullptr;
    if (i > 0) {
      stages_[i - 1].gradient.resize(samples_ * stages_[i - 1].outputs);
      input_gradient = stages_[i - 1].gradient.data();
    }
    const Layer::Activations activations = {.input = i > 0 ? stages_[i - 1].output.data() : inputs.data(),
                                            .output = stage.output.data(),
                                            .output_gradient = stage.gradient.data(),
                                            .input_gradient = input_gradient};
    stage.layer->backward(parameters.subspan(stage.first_parameter, stage.parameters), activations, samples_,
                          {target.into.subspan(stage.first_parameter, stage.parameters), target.scale, target.keep});
  }
}

double Network::softmax_gradient(std::span<const std::uint8_t> labels, float scale) {
  Stage& last = stages_.back();
  const std::size_t classes = spec_.classes;
  last.gradient.resize(last.output.size());
  double loss_sum = 0.0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    GLEANER_CHECK(labels[i] < classes);
    const std::span<const float> scores = std::span(last.output).subspan(i * classes, classes);
    const std::span<float> gradient = std::span(last.gradient).subspan(i * classes, classes);
    const LogSum logs = log_sum_of(scores);
    for (std::size_t c = 0; c < classes; ++c) gradient[c] = std::exp(scores[c] - logs.largest) / logs.sum * scale;
    gradient[labels[i]] -= scale;
    loss_sum += loss_of(logs, scores[labels[i]]);
  }
  return loss_sum;
}

std::span<const float> Network::forward(std::span<const float> parameters, std::span<const float> inputs) {
  run_forward(parameters, inputs);
  return stages_.back().output;
}

Network::Score Network::score(std::span<const float> parameters, const Batch& batch) {
  Score result;
  for (std::size_t first = 0; first < batch.labels.size(); first += kPartSamples) {
    const Batch part = part_of(batch, first);
    const std::span<const float> all = forward(parameters, part.inputs);
    for (std::size_t i = 0; i < part.labels.size(); ++i) {
      GLEANER_CHECK(part.labels[i] < spec_.classes);
      const auto scores = all.subspan(i * spec_.classes, spec_.classes);
      result.loss_sum += loss_of(log_sum_of(scores), scores[part.labels[i]]);
      result.correct += std::ranges::max_element(scores) - scores.begin() == part.labels[i] ? 1 : 0;
    }
  }
  return result;
}

double Network::loss(std::span<const float> parameters, const Batch& batch) {
  GLEANER_CHECK(!batch.labels.empty());
  return score(parameters, batch).loss_sum / static_cast<double>(batch.labels.size());
}

void Network::predict(std::span<const float> parameters, std::span<const float> inputs,
                      std::span<std::uint8_t> classes) {
  GLEANER_CHECK(inputs.size() == classes.size() * spec_.inputs);
  for (std::size_t first = 0; first < classes.size(); first += kPartSamples) {
    const std::size_t count = std::min(kPartSamples, classes.size() - first);
    const auto all = forward(parameters, inputs.subspan(first * spec_.inputs, count * spec_.inputs));
    for (std::size_t i = 0; i < count; ++i) {
      const auto scores = all.subspan(i * spec_.classes, spec_.classes);
      classes[first + i] = static_cast<std::uint8_t>(std::ranges::max_element(scores) - scores.begin());
    }
  }
}

double Network::gradient(std::span<const float> parameters, const Batch& batch, std::span<float> out) {
  const std::size_t samples = batch.labels.size();
  GLEANER_CHECK(samples > 0 && batch.inputs.size() == samples * spec_.inputs);
  GLEANER_CHECK(out.size() == parameter_count_);
  const float share = 1.0F / static_cast<float>(samples);
  double loss_sum = 0.0;
  for (std::size_t first = 0; first < samples; first += kPartSamples) {
    const Batch part = part_of(batch, first);
    run_forward(parameters, part.inputs);
    loss_sum += softmax_gradient(part.labels, share);
    run_backward(parameters, part.inputs, {out, 1.0F, first == 0 ? 0.0F : 1.0F});
  }
  return loss_sum / static_cast<double>(samples);
}

double Network::step(std::span<float> parameters, const Batch& batch, const SgdStep& step) {
  const float keep = 1.0F - step.learning_rate * step.weight_decay;
  const std::size_t samples = batch.labels.size();
  if (samples > kPartSamples) {
    spare_.resize(parameter_count_);
    const double mean_loss = gradient(parameters, batch, spare_);
    for (std::size_t i = 0; i < parameter_count_; ++i) {
      parameters[i] = keep * parameters[i] - step.learning_rate * spare_[i];
    }
    return mean_loss;
  }
  GLEANER_CHECK(samples > 0 && batch.inputs.size() == samples * spec_.inputs);
  run_forward(parameters, batch.inputs);
  const double loss_sum = softmax_gradient(batch.labels, 1.0F / static_cast<float>(samples));
  run_backward(parameters, batch.inputs, {parameters, -step.learning_rate, keep});
  return loss_sum / static_cast<double>(samples);
}

}  // namespace gleaner
