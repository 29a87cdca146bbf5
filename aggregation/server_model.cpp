#include "aggregation/server_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/check.hpp"

namespace gleaner {
namespace {

Status check_options(const ServerStepOptions& options) {
  if (options.patch_entries_max == 0) {
    return fail(ErrorCode::bad_input, "patch_entries_max is 0: it must be at least 1, or no version ever differs");
  }
  if (!(std::isfinite(options.divisor) && options.divisor >= 0.0 && options.divisor <= 0x1p61)) {
    return fail(
        ErrorCode::bad_input,
        fmt::format("the divisor is {}: it must be a sum of samples, or 0 for those that came", options.divisor));
  }
  if (options.divisor > 0.0 && options.divisor < 0x1p-61) {
    return fail(ErrorCode::bad_input, fmt::format("the divisor {} is too small for a sum of samples", options.divisor));
  }
  if (options.tracked && options.divisor == 0.0) {
    return fail(ErrorCode::bad_input, "tracked updates add up over rounds: they need a fixed divisor");
  }
  return {};
}

}  // namespace

Result<ServerModel> ServerModel::make(std::vector<float> initial, const ServerStepOptions& options,
                                      const Grouping& tensors, const KernelTable& kernels) {
  GLEANER_TRY(check_options(options));
  GLEANER_ASSIGN(auto optimizer,
                 make_server_optimizer(options.optimizer, {.learning_rate = options.server_learning_rate,
                                                           .momentum = options.server_momentum}));
  const std::uint64_t grouped = std::accumulate(tensors.sizes.begin(), tensors.sizes.end(), std::uint64_t{0});
  if (initial.empty() || initial.size() > std::numeric_limits<std::uint32_t>::max() || grouped != initial.size()) {
    return fail(ErrorCode::bad_input,
                fmt::format("{} initial parameters for tensors of {} together", initial.size(), grouped));
  }
  const auto wild = std::ranges::find_if(initial, [](float w) { return !(std::abs(w) <= kParameterMax); });
  if (wild != initial.end()) {
    return fail(ErrorCode::bad_input, fmt::format("initial parameter {} is {}", wild - initial.begin(), *wild));
  }

  ServerModel model;
  model.options_ = options;
  model.tensors_ = tensors;
  model.kernels_ = &kernels;
  model.optimizer_ = std::move(optimizer);
  model.hash_ = kernels.model_hash(initial);
  model.parameters_ = std::move(initial);
  const std::size_t size = model.parameters_.size();
  if (options.keep_residual) model.residual_.resize(size);
  model.optimizer_state_.resize(size * model.optimizer_->state_per_coordinate());
  if (options.tracked) model.running_sum_.resize(size);
  model.last_changed_.resize(size);
  return model;
}

void ServerModel::commit(PreparedStep step) {
  GLEANER_CHECK(step.version == next(version_));
  GLEANER_CHECK(step.residual.size() == residual_.size() && step.running_sum.size() == running_sum_.size());
  GLEANER_CHECK(step.optimizer_state.size() == optimizer_state_.size());
  const SparseVector& u = step.decoded;
  for (std::size_t j = 0; j < u.indices.size(); ++j) {
    const float before = parameters_[u.indices[j]];
    const float after = before - u.values[j];
    // By bits: a step below half a unit of the last place moves nothing, one from -0 to 0 does.
    if (std::bit_cast<std::uint32_t>(after) != std::bit_cast<std::uint32_t>(before)) {
      last_changed_[u.indices[j]] = step.version.value;
    }
  }
  hash_ = kernels_->apply_patch(parameters_, u.indices, u.values, hash_);
  GLEANER_CHECK(hash_ == step.model_hash);
  version_ = step.version;
  residual_ = std::move(step.residual);
  optimizer_state_ = std::move(step.optimizer_state);
  running_sum_ = std::move(step.running_sum);
  running_exponent_ = step.running_exponent;
}

Bytes ServerModel::absolute_since(Version from) const {
  SparseVector newest{.dimension = dimension(), .indices = {}, .values = {}};
  const auto entries = static_cast<std::size_t>(absolute_entries_since(from));
  newest.indices.reserve(entries);
  newest.values.reserve(entries);
  for (std::uint32_t i = 0; i < dimension(); ++i) {
    if (last_changed_[i] <= from.value) continue;
    newest.indices.push_back(i);
    newest.values.push_back(parameters_[i]);
  }
  return encode_payload(newest, Grouping{{dimension()}}, ValueFormat::f32, kParameterMax).bytes;
}

std::uint64_t ServerModel::absolute_entries_since(Version from) const {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(last_changed_, [&](std::uint32_t version) { return version > from.value; }));
}

}  // namespace gleaner
