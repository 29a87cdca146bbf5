// ServerModel::prepare: one round's sum becomes a patch.

#include <fmt/format.h>

#include <array>
#include <bit>

#include "aggregation/fixed_point.hpp"
#include "aggregation/server_model.hpp"
#include "common/check.hpp"
#include "common/hash.hpp"

namespace gleaner {
namespace {

constexpr std::size_t kChunk = 1024;

// The smallest power of two at or above a magnitude that is a normal f32.
float power_of_two_above(float magnitude) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(magnitude);
  const std::uint32_t exponent = bits >> 23;
  const bool exact = (bits & 0x7fffffU) == 0;
  return std::bit_cast<float>((exponent + (exact ? 0U : 1U)) << 23);
}

}  // namespace

Result<PreparedStep> ServerModel::prepare(const Accumulator& accumulator) const {
  GLEANER_CHECK(accumulator.sum().size() == parameters_.size());
  const auto sum = accumulator.sum();
  return prepare_in({sum.begin(), sum.end()}, accumulator);
}

Result<PreparedStep> ServerModel::prepare(Accumulator&& accumulator) const {
  return prepare_in(accumulator.take_sum(), accumulator);
}

// room holds the round's sum and becomes the step.
Result<PreparedStep> ServerModel::prepare_in(std::vector<std::int64_t> room, const Accumulator& accumulator) const {
  GLEANER_CHECK(room.size() == parameters_.size());
  PreparedStep step;
  step.version = next(version_);
  step.residual = std::move(room);
  if (options_.tracked) add_to_running_sum(accumulator, step);
  GLEANER_TRY(make_step_vector(accumulator, step));
  std::vector<std::uint32_t> indices;
  kernels_->select_integers(step.residual, options_.patch_entries_max, indices);
  quantize(std::move(indices), step);
  GLEANER_TRY(take_step(step));
  if (!options_.keep_residual) step.residual = {};
  return step;
}

// H' = H + sum. The two grids may differ when the fleet has grown or shrunk: the coarser one is kept, which the larger
// weights of its rounds asked for, and the finer side is rounded once.
void ServerModel::add_to_running_sum(const Accumulator& accumulator, PreparedStep& step) const {
  const int exponent = accumulator.grid().exponent();
  step.running_exponent = version_.value == 0 ? exponent : std::min(running_exponent_, exponent);
  const int shift_running = std::max(0, running_exponent_ - step.running_exponent);
  const int shift_sum = exponent - step.running_exponent;
  const std::span<const std::int64_t> sum = step.residual;
  step.running_sum.resize(sum.size());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    step.running_sum[i] = add_cut(shift_right_to_even(running_sum_[i], shift_running),
                                  shift_right_to_even(sum[i], shift_sum), step.saturated);
  }
}

// v = optimiser(mean) on the residual's grid + residual, made in step.residual.
Status ServerModel::make_step_vector(const Accumulator& accumulator, PreparedStep& step) const {
  // A block of sums is read before a block of steps takes its place.
  const std::span<const std::int64_t> sum = options_.tracked ? step.running_sum : step.residual;
  const int exponent = options_.tracked ? step.running_exponent : accumulator.grid().exponent();
  double divisor = options_.divisor;
  if (divisor == 0.0) divisor = accumulator.weight() == 0 ? 1.0 : static_cast<double>(accumulator.weight());
  const double scale = std::ldexp(divisor, exponent);  // exact: far from both ends of double

  const std::size_t per_coordinate = optimizer_->state_per_coordinate();
  step.optimizer_state.resize(optimizer_state_.size());
  std::array<double, kChunk> buffer;
  for (std::size_t begin = 0; begin < sum.size(); begin += kChunk) {
    const std::size_t size = std::min(kChunk, sum.size() - begin);
    const auto mean = std::span(buffer).first(size);
    for (std::size_t i = 0; i < size; ++i) mean[i] = static_cast<double>(sum[begin + i]) / scale;
    const std::size_t state_begin = begin * per_coordinate;
    const std::size_t state_size = size * per_coordinate;
    optimizer_->step(mean, std::span(optimizer_state_).subspan(state_begin, state_size),
                     std::span(step.optimizer_state).subspan(state_begin, state_size));
    for (std::size_t i = 0; i < size; ++i) {
      if (!std::isfinite(mean[i])) {
        return fail(ErrorCode::bad_input,
                    fmt::format("version {} would move parameter {} by {}: lower the server's learning rate",
                                step.version.value, begin + i, mean[i]));
      }
      const std::int64_t before = options_.keep_residual ? residual_[begin + i] : 0;
      step.residual[begin + i] = add_cut(to_residual_grid(mean[i], step.saturated), before, step.saturated);
    }
  }
  return {};
}

// u = what the value format makes of v at these indices.
void ServerModel::quantize(std::vector<std::uint32_t> indices, PreparedStep& step) const {
  SparseVector u{.dimension = dimension(), .indices = std::move(indices), .values = {}};
  u.values.reserve(u.indices.size());
  float largest = 0.0F;
  for (const std::uint32_t index : u.indices) {
    // An integer becomes a float in one rounding; the power of two is exact.
    const float value = static_cast<float>(step.residual[index]) * 0x1p-40F;
    largest = std::max(largest, std::abs(value));
    u.values.push_back(value);
  }
  step.patch_clip = u.values.empty() ? 1.0F : power_of_two_above(largest);
  EncodedPayload encoded = encode_payload(u, tensors_, options_.patch_values, step.patch_clip);
  step.patch = std::move(encoded.bytes);
  step.patch_split = encoded.split;
  step.decoded = {.dimension = u.dimension, .indices = std::move(u.indices), .values = std::move(encoded.sent)};
}

// w' = fl32(w - u), s = v - (w - w'), hash and norm; the model itself stays.
Status ServerModel::take_step(PreparedStep& step) const {
  step.model_hash = hash_;
  for (std::size_t j = 0; j < step.decoded.indices.size(); ++j) {
    const std::uint32_t index = step.decoded.indices[j];
    const float before = parameters_[index];
    const float after = before - step.decoded.values[j];
    if (!(std::abs(after) <= kParameterMax)) {
      return fail(ErrorCode::bad_input, fmt::format("version {} would make parameter {} {}: the model diverges",
                                                    step.version.value, index, after));
    }
    const double moved = static_cast<double>(before) - static_cast<double>(after);
    step.step_squared_norm += moved * moved;
    const std::int64_t applied = to_residual_grid(moved, step.saturated);
    step.residual[index] = add_cut(step.residual[index], -applied, step.saturated);
    step.model_hash -= coordinate_hash(index, before);
    step.model_hash += coordinate_hash(index, after);
  }
  return {};
}

}  // namespace gleaner
