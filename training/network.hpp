#pragma once
// A model that computes: forward, loss, gradient, predictions on a batch. The parameters are the caller's, one flat
// vector in the order of tensors_of(); the network owns only scratch memory. One object per thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "training/layers.hpp"
#include "training/model.hpp"

namespace gleaner {

struct Batch {
  std::span<const float> inputs;         // samples x spec.inputs
  std::span<const std::uint8_t> labels;  // samples, each below spec.classes
};

struct SgdStep {
  float learning_rate = 0.0F;
  float weight_decay = 0.0F;
};

class Network {
 public:
  explicit Network(const ModelSpec& spec);  // a spec that passes check_spec()

  const ModelSpec& spec() const { return spec_; }
  std::size_t parameter_count() const { return parameter_count_; }

  // Scores before the softmax, samples x classes; valid until the next call.
  std::span<const float> forward(std::span<const float> parameters, std::span<const float> inputs);

  struct Score {
    double loss_sum = 0.0;
    std::uint64_t correct = 0;
  };
  // Cross-entropy summed over the batch, and how many have the largest score at their label (the first of equals).
  Score score(std::span<const float> parameters, const Batch& batch);
  double loss(std::span<const float> parameters, const Batch& batch);  // mean over the batch
  void predict(std::span<const float> parameters, std::span<const float> inputs, std::span<std::uint8_t> classes);

  // out = gradient of the mean loss; returns the mean loss. Large batches are worked off in parts, so that memory stays
  // bounded.
  double gradient(std::span<const float> parameters, const Batch& batch, std::span<float> out);

  // parameters -= learning_rate * (gradient + weight_decay * parameters), in one pass; returns the mean loss before it.
  double step(std::span<float> parameters, const Batch& batch, const SgdStep& step);

  // The most samples that are worked on at once; what a batch beyond it costs is another part.
  static constexpr std::size_t kPartSamples = 256;

 private:
  struct Stage {
    std::unique_ptr<Layer> layer;
    std::size_t outputs;  // per sample
    std::size_t first_parameter;
    std::size_t parameters;
    std::vector<float> output;
    std::vector<float> gradient;  // of the output
  };

  Batch part_of(const Batch& batch, std::size_t first) const;
  void run_forward(std::span<const float> parameters, std::span<const float> inputs);
  void run_backward(std::span<const float> parameters, std::span<const float> inputs, const GradientTarget& target);
  // From the scores of the last forward run: the loss, and its gradient times scale where the last stage keeps it.
  double softmax_gradient(std::span<const std::uint8_t> labels, float scale);

  ModelSpec spec_;
  std::size_t parameter_count_ = 0;
  std::vector<Stage> stages_;
  std::vector<float> spare_;  // a gradient of step() when a batch has several parts
  std::size_t samples_ = 0;   // of the last forward run
};

}  // namespace gleaner
