// The server's whole state as bytes.
//
//   snapshot := u32 magic, u32 version, u32 dimension d, u64 model hash, u8 optimiser doubles a coordinate n,
//               u8 parts (1: residual, 2: running sum), i32 running exponent, f32[d] parameters, i64[d] residual,
//               f64[d n] optimiser state, i64[d] running sum, u32[d] last changed, u64 digest of all before

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "aggregation/sealed.hpp"
#include "aggregation/server_model.hpp"

namespace gleaner {
namespace {

constexpr std::uint32_t kMagic = 0x31534c47;  // "GLS1"
constexpr std::uint8_t kHasResidual = 1;
constexpr std::uint8_t kHasRunningSum = 2;
constexpr std::size_t kHeaderBytes = 4 + 4 + 4 + 8 + 1 + 1 + 4;

std::unexpected<Error> corrupt(std::string_view what) {
  return fail(ErrorCode::corrupt, fmt::format("a snapshot is damaged: {}", what));
}

template <class T>
std::vector<T> get_array(ByteReader& in, std::size_t count) {
  std::vector<T> values(count);
  const ByteView bytes = in.get_bytes(count * sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

bool all_within(std::span<const std::int64_t> values) {
  return std::ranges::all_of(values, [](std::int64_t x) { return x >= -kResidualMax && x <= kResidualMax; });
}

}  // namespace

Bytes ServerModel::to_snapshot() const {
  Bytes out;
  const std::size_t body = parameters_.size() * (sizeof(float) + sizeof(std::uint32_t)) +
                           (residual_.size() + optimizer_state_.size() + running_sum_.size()) * 8;
  out.reserve(kHeaderBytes + body + sizeof(std::uint64_t));
  ByteWriter writer(out);
  writer.put(kMagic);
  writer.put(version_.value);
  writer.put(dimension());
  writer.put(hash_);
  writer.put(static_cast<std::uint8_t>(optimizer_->state_per_coordinate()));
  writer.put(
      static_cast<std::uint8_t>((residual_.empty() ? 0 : kHasResidual) | (running_sum_.empty() ? 0 : kHasRunningSum)));
  writer.put(static_cast<std::int32_t>(running_exponent_));
  writer.put_array(std::span<const float>(parameters_));
  writer.put_array(std::span<const std::int64_t>(residual_));
  writer.put_array(std::span<const double>(optimizer_state_));
  writer.put_array(std::span<const std::int64_t>(running_sum_));
  writer.put_array(std::span<const std::uint32_t>(last_changed_));
  seal(out);
  return out;
}

Status ServerModel::load_snapshot(ByteView snapshot) {
  ByteView body;
  if (!unseal(snapshot, body)) return corrupt("its checksum does not match");
  ByteReader in(body);
  if (in.get<std::uint32_t>() != kMagic) return corrupt("it does not start like one");
  const Version version{in.get<std::uint32_t>()};
  const auto dimension_stored = in.get<std::uint32_t>();
  const auto hash = in.get<std::uint64_t>();
  const auto per_coordinate = in.get<std::uint8_t>();
  const auto parts = in.get<std::uint8_t>();
  const auto running_exponent = in.get<std::int32_t>();
  if (!in.ok()) return corrupt("it is cut off");
  if (dimension_stored != dimension()) {
    return corrupt(fmt::format("it has {} parameters, the run's model has {}", dimension_stored, dimension()));
  }
  const auto parts_expected =
      static_cast<std::uint8_t>((options_.keep_residual ? kHasResidual : 0) | (options_.tracked ? kHasRunningSum : 0));
  if (per_coordinate != optimizer_->state_per_coordinate() || parts != parts_expected) {
    return corrupt(fmt::format("it was made with another server step than '{}'", options_.optimizer));
  }
  // Everything is as large as what this model holds already: no size is taken from the bytes.
  const std::size_t expected = parameters_.size() * (sizeof(float) + sizeof(std::uint32_t)) +
                               (residual_.size() + optimizer_state_.size() + running_sum_.size()) * 8;
  if (in.remaining() != expected) return corrupt("its length does not fit its head");
  auto parameters = get_array<float>(in, parameters_.size());
  auto residual = get_array<std::int64_t>(in, residual_.size());
  auto optimizer_state = get_array<double>(in, optimizer_state_.size());
  auto running_sum = get_array<std::int64_t>(in, running_sum_.size());
  auto last_changed = get_array<std::uint32_t>(in, last_changed_.size());

  if (kernels_->model_hash(parameters) != hash) return corrupt("the model does not have the hash it names");
  if (!std::ranges::all_of(parameters, [](float w) { return std::abs(w) <= kParameterMax; })) {
    return corrupt("a parameter is not finite");
  }
  if (!all_within(residual) || !all_within(running_sum)) return corrupt("a residual is beyond its grid");
  if (!std::ranges::all_of(optimizer_state, [](double m) { return std::isfinite(m); })) {
    return corrupt("the optimiser's state is not finite");
  }
  if (std::ranges::any_of(last_changed, [&](std::uint32_t v) { return v > version.value; })) {
    return corrupt("a parameter changed after the version it is of");
  }
  const bool exponent_fits = running_exponent >= -64 && running_exponent <= 128;
  if (!exponent_fits) return corrupt("the running sum's grid is impossible");

  version_ = version;
  hash_ = hash;
  parameters_ = std::move(parameters);
  residual_ = std::move(residual);
  optimizer_state_ = std::move(optimizer_state);
  running_sum_ = std::move(running_sum);
  running_exponent_ = running_exponent;
  last_changed_ = std::move(last_changed);
  return {};
}

}  // namespace gleaner
