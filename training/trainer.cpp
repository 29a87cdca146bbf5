#include "training/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/check.hpp"
#include "common/random.hpp"

namespace gleaner {
namespace {

// Plain SGD goes straight into the parameters; momentum needs the gradient by itself.
class Optimiser {
 public:
  Optimiser(Network& network, const LocalWork& work, LocalScratch& scratch)
      : network_(network), work_(work), gradient_(scratch.gradient), velocity_(scratch.velocity) {
    if (work.momentum > 0.0F) {
      gradient_.resize(network.parameter_count());
      velocity_.assign(network.parameter_count(), 0.0F);
    }
  }

  double step(std::span<float> parameters, const Batch& batch) {
    if (work_.momentum == 0.0F) return network_.step(parameters, batch, {work_.learning_rate, work_.weight_decay});
    const double loss = network_.gradient(parameters, batch, gradient_);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      velocity_[i] = work_.momentum * velocity_[i] + (gradient_[i] + work_.weight_decay * parameters[i]);
      parameters[i] -= work_.learning_rate * velocity_[i];
    }
    return loss;
  }

 private:
  Network& network_;
  const LocalWork& work_;
  std::vector<float>& gradient_;
  std::vector<float>& velocity_;
};

}  // namespace

Status check_fit(const Network& network, const Dataset& dataset, std::span<const float> parameters) {
  return check_sizes(network.spec(), network.parameter_count(), dataset, parameters);
}

Status train_local(Network& network, const Dataset& dataset, std::span<const std::uint32_t> my_samples,
                   std::span<const float> parameters, const LocalWork& work, const Turn& turn, LocalScratch& scratch,
                   LocalResult& result) {
  GLEANER_TRY(check_fit(network, dataset, parameters));
  GLEANER_TRY(check_samples(dataset.samples, my_samples));
  GLEANER_TRY(check_work(work));

  std::vector<std::uint32_t>& order = scratch.order;
  SampleOrder epochs(order, my_samples, turn);
  std::vector<float>& after = result.delta;
  after.assign(parameters.begin(), parameters.end());
  result.steps = 0;
  result.samples_seen = 0;
  Optimiser optimiser(network, work, scratch);
  double loss_sum = 0.0;
  const auto done = [&] { return work.max_steps != 0 && result.steps == work.max_steps; };
  for (std::uint32_t epoch = 0; epoch < work.epochs && !done(); ++epoch) {
    epochs.next_epoch();
    for (std::size_t first = 0; first < order.size() && !done(); first += work.batch_size) {
      const std::size_t count = std::min<std::size_t>(work.batch_size, order.size() - first);
      gather(dataset, std::span(order).subspan(first, count), scratch.gathered);
      const double loss = optimiser.step(after, {scratch.gathered.inputs, scratch.gathered.labels});
      ++result.steps;
      if (!std::isfinite(loss)) return diverged(kLossNotFinite, result.steps, work);
      loss_sum += loss * static_cast<double>(count);
      result.samples_seen += count;
    }
  }
  result.mean_loss = loss_sum / static_cast<double>(result.samples_seen);
  bool finite = true;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    result.delta[i] = parameters[i] - result.delta[i];
    finite &= std::isfinite(result.delta[i]);
  }
  if (!finite) return diverged(kParameterNotFinite, result.steps, work);
  return {};
}

Result<LocalResult> train_local(Network& network, const Dataset& dataset, std::span<const std::uint32_t> my_samples,
                                std::span<const float> parameters, const LocalWork& work, const Turn& turn,
                                LocalScratch& scratch) {
  LocalResult result;
  GLEANER_TRY(train_local(network, dataset, my_samples, parameters, work, turn, scratch, result));
  return result;
}

Result<LocalResult> train_local(Network& network, const Dataset& dataset, std::span<const std::uint32_t> my_samples,
                                std::span<const float> parameters, const LocalWork& work, const Turn& turn) {
  LocalScratch scratch;
  return train_local(network, dataset, my_samples, parameters, work, turn, scratch);
}

std::vector<std::uint32_t> draw_batch(std::span<const std::uint32_t> my_samples, std::uint32_t batch_size,
                                      const Turn& turn) {
  GLEANER_CHECK(turn.round < kRoundsEnd);
  Random random(turn.seed, Purpose::shuffle, turn.round | kRoundsEnd, turn.device);
  std::vector<std::uint32_t> samples(my_samples.begin(), my_samples.end());
  const std::size_t count = std::min<std::size_t>(batch_size, samples.size());
  for (std::size_t i = 0; i < count; ++i) {
    std::swap(samples[i], samples[i + random.below(static_cast<std::uint32_t>(samples.size() - i))]);
  }
  samples.resize(count);
  return samples;
}

Result<double> gradient_at(Network& network, const Dataset& dataset, std::span<const std::uint32_t> samples,
                           std::span<const float> parameters, std::span<float> out) {
  GLEANER_TRY(check_fit(network, dataset, parameters));
  GLEANER_TRY(check_samples(dataset.samples, samples));
  GLEANER_CHECK(out.size() == network.parameter_count());
  GatheredBatch gathered;
  gather(dataset, samples, gathered);
  const double loss = network.gradient(parameters, {gathered.inputs, gathered.labels}, out);
  const bool finite = std::ranges::all_of(out, [](float value) { return std::isfinite(value); });
  if (!std::isfinite(loss) || !finite) {
    return fail(ErrorCode::bad_input, "the gradient is not finite: the model has diverged, lower the learning rate");
  }
  return loss;
}

}  // namespace gleaner
