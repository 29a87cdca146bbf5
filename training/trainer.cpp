#include "training/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/check.hpp"
#include "common/random.hpp"

namespace gleaner {
namespace {

// Shuffles and drawn batches of one turn are different streams.
constexpr std::uint64_t kDrawBatch = std::uint64_t{1} << 63;

void shuffle(std::span<std::uint32_t> values, Random& random) {
  for (std::size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[random.below(static_cast<std::uint32_t>(i))]);
  }
}

Status check_samples(const Dataset& dataset, std::span<const std::uint32_t> samples) {
  if (samples.empty()) return fail(ErrorCode::bad_input, "no samples to train on: give the device at least one");
  const auto wrong = std::ranges::find_if(samples, [&](std::uint32_t sample) { return sample >= dataset.samples; });
  if (wrong == samples.end()) return {};
  return fail(ErrorCode::bad_input,
              fmt::format("sample {} does not exist: the data set has {}", *wrong, dataset.samples));
}

Status check_work(const LocalWork& work) {
  const auto wrong = [](const char* name, auto value, const char* expected) {
    return fail(ErrorCode::bad_input, fmt::format("{} is {}: must be {}", name, value, expected));
  };
  if (work.epochs == 0) return wrong("epochs", work.epochs, "at least 1");
  if (work.batch_size == 0) return wrong("batch_size", work.batch_size, "at least 1");
  if (!std::isfinite(work.learning_rate) || work.learning_rate <= 0.0F) {
    return wrong("learning_rate", work.learning_rate, "a finite number above 0");
  }
  if (!(work.momentum >= 0.0F && work.momentum < 1.0F)) return wrong("momentum", work.momentum, "from 0 to below 1");
  if (!std::isfinite(work.weight_decay) || work.weight_decay < 0.0F) {
    return wrong("weight_decay", work.weight_decay, "a finite number of at least 0");
  }
  return {};
}

std::unexpected<Error> diverged(const char* what, std::uint32_t steps, const LocalWork& work) {
  return fail(ErrorCode::bad_input,
              fmt::format("training diverged: {} after {} steps; learning rate {} is probably too high", what, steps,
                          work.learning_rate));
}

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
  const ModelSpec& spec = network.spec();
  if (parameters.size() != network.parameter_count()) {
    return fail(ErrorCode::bad_input, fmt::format("model {} has {} parameters, {} were given", spec.name,
                                                  network.parameter_count(), parameters.size()));
  }
  if (dataset.features != spec.inputs || dataset.classes != spec.classes) {
    return fail(
        ErrorCode::bad_input,
        fmt::format("model {} takes {} inputs and {} classes, the data set has {} and {}: use the data set that "
                    "the run was made for",
                    spec.name, spec.inputs, spec.classes, dataset.features, dataset.classes));
  }
  return {};
}

Status train_local(Network& network, const Dataset& dataset, std::span<const std::uint32_t> my_samples,
                   std::span<const float> parameters, const LocalWork& work, const Turn& turn, LocalScratch& scratch,
                   LocalResult& result) {
  GLEANER_TRY(check_fit(network, dataset, parameters));
  GLEANER_TRY(check_samples(dataset, my_samples));
  GLEANER_TRY(check_work(work));
  GLEANER_CHECK(turn.round < kDrawBatch);

  Random random(turn.seed, Purpose::shuffle, turn.round, turn.device);
  std::vector<std::uint32_t>& order = scratch.order;
  order.assign(my_samples.begin(), my_samples.end());
  std::vector<float>& after = result.delta;
  after.assign(parameters.begin(), parameters.end());
  result.steps = 0;
  result.samples_seen = 0;
  Optimiser optimiser(network, work, scratch);
  double loss_sum = 0.0;
  const auto done = [&] { return work.max_steps != 0 && result.steps == work.max_steps; };
  for (std::uint32_t epoch = 0; epoch < work.epochs && !done(); ++epoch) {
    shuffle(order, random);
    for (std::size_t first = 0; first < order.size() && !done(); first += work.batch_size) {
      const std::size_t count = std::min<std::size_t>(work.batch_size, order.size() - first);
      gather(dataset, std::span(order).subspan(first, count), scratch.gathered);
      const double loss = optimiser.step(after, {scratch.gathered.inputs, scratch.gathered.labels});
      ++result.steps;
      if (!std::isfinite(loss)) return diverged("the loss is not finite", result.steps, work);
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
  if (!finite) return diverged("a parameter is not finite", result.steps, work);
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
  GLEANER_CHECK(turn.round < kDrawBatch);
  Random random(turn.seed, Purpose::shuffle, turn.round | kDrawBatch, turn.device);
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
  GLEANER_TRY(check_samples(dataset, samples));
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
