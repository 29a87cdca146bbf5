#include "training/local_work.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/check.hpp"

namespace gleaner {

Status check_sizes(const ModelSpec& spec, std::size_t parameter_count, const DatasetShape& shape,
                   std::span<const float> parameters) {
  if (parameters.size() != parameter_count) {
    return fail(ErrorCode::bad_input, fmt::format("model {} has {} parameters, {} were given", spec.name,
                                                  parameter_count, parameters.size()));
  }
  if (shape.features != spec.inputs || shape.classes != spec.classes) {
    return fail(
        ErrorCode::bad_input,
        fmt::format("model {} takes {} inputs and {} classes, the data set has {} and {}: use the data set that "
                    "the run was made for",
                    spec.name, spec.inputs, spec.classes, shape.features, shape.classes));
  }
  return {};
}

Status check_samples(std::uint32_t available, std::span<const std::uint32_t> samples) {
  if (samples.empty()) return fail(ErrorCode::bad_input, "no samples to train on: give the device at least one");
  const auto wrong = std::ranges::find_if(samples, [&](std::uint32_t sample) { return sample >= available; });
  if (wrong == samples.end()) return {};
  return fail(ErrorCode::bad_input, fmt::format("sample {} does not exist: the data set has {}", *wrong, available));
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

SampleOrder::SampleOrder(std::vector<std::uint32_t>& order, std::span<const std::uint32_t> samples, const Turn& turn)
    : order_(order), random_(turn.seed, Purpose::shuffle, turn.round, turn.device) {
  GLEANER_CHECK(turn.round < kRoundsEnd);
  order_.assign(samples.begin(), samples.end());
}

void SampleOrder::next_epoch() {
  for (std::size_t i = order_.size(); i > 1; --i) {
    std::swap(order_[i - 1], order_[random_.below(static_cast<std::uint32_t>(i))]);
  }
}

}  // namespace gleaner
