// memory = u8 version, u8 kind, u32 dimension, state f32*, u8 pending, (pending: u32 count, u32 index*, f32 value*)

#include "compression/device_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "common/check.hpp"
#include "kernels/arithmetic.hpp"

namespace gleaner {
namespace {

constexpr std::uint8_t kFormatVersion = 1;

std::size_t state_size(MemoryKind kind, std::uint32_t dimension) { return kind == MemoryKind::none ? 0 : dimension; }

bool is_valid(const SparseVector& vector) {
  const auto& indices = vector.indices;
  return std::ranges::adjacent_find(indices, std::ranges::greater_equal{}) == indices.end() &&
         (indices.empty() || indices.back() < vector.dimension) && all_finite(vector.values);
}

// Whether a - b is an f32 (Knuth, volume 2, 4.2.2, theorem B: the rounding error of a sum is computed exactly).
bool is_exact_difference(float a, float b) {
  const float rest = a - b;
  const float minus_b = rest - a;
  const float error = (a - (rest - minus_b)) + (-b - minus_b);
  return error == 0.0F;
}

// Memory is taken only for what the bytes hold.
template <class T>
bool get_array(ByteReader& in, std::size_t count, std::vector<T>& out) {
  const ByteView bytes = in.get_bytes(count * sizeof(T));
  if (!in.ok()) return false;
  out.resize(count);
  if (count > 0) std::memcpy(out.data(), bytes.data(), bytes.size());
  return true;
}

}  // namespace

DeviceMemory::DeviceMemory(MemoryKind kind, std::uint32_t dimension)
    : kind_(kind), dimension_(dimension), state_(state_size(kind, dimension)) {}

Status DeviceMemory::begin(SparseVector sent) {
  GLEANER_CHECK(!pending_.has_value());
  GLEANER_CHECK(sent.dimension == dimension_ && sent.indices.size() == sent.values.size() && is_valid(sent));
  if (kind_ == MemoryKind::residual) {
    for (std::size_t j = 0; j < sent.indices.size(); ++j) {
      const float before = state_[sent.indices[j]];
      if (is_exact_difference(before, sent.values[j])) continue;
      return fail(ErrorCode::bad_input,
                  fmt::format("coordinate {} of the residual is {}, too large for sending {} of it exactly: the update "
                              "is far beyond the plan's clip; lower the learning rate",
                              sent.indices[j], before, sent.values[j]));
    }
    for (std::size_t j = 0; j < sent.indices.size(); ++j) state_[sent.indices[j]] -= sent.values[j];
  }
  pending_ = std::move(sent);
  return {};
}

std::uint32_t DeviceMemory::settle(Outcome outcome) {
  if (!pending_ || outcome == Outcome::unknown) return 0;
  const SparseVector sent = std::move(*pending_);
  pending_.reset();
  const bool put_back = outcome != Outcome::included && outcome != Outcome::refused;
  const bool add = kind_ == MemoryKind::residual ? put_back : outcome == Outcome::included;
  if (kind_ != MemoryKind::none && add) {
    for (std::size_t j = 0; j < sent.indices.size(); ++j) state_[sent.indices[j]] += sent.values[j];
  }
  if (outcome != Outcome::refused) return 0;
  if (kind_ == MemoryKind::residual) {
    for (const std::uint32_t index : sent.indices) state_[index] = 0.0F;
  }
  return static_cast<std::uint32_t>(sent.indices.size());
}

std::size_t DeviceMemory::size_bytes() const {
  return 7 + 4 * state_.size() + (pending_ ? 4 + 8 * pending_->indices.size() : 0);
}

Bytes DeviceMemory::to_bytes() const {
  Bytes bytes;
  bytes.reserve(size_bytes());
  append_to(bytes);
  return bytes;
}

void DeviceMemory::append_to(Bytes& bytes) const {
  const std::size_t end = bytes.size() + size_bytes();
  ByteWriter out(bytes);
  out.put(kFormatVersion);
  out.put(static_cast<std::uint8_t>(kind_));
  out.put(dimension_);
  out.put_array(std::span(state_));
  out.put(static_cast<std::uint8_t>(pending_ ? 1 : 0));
  if (pending_) {
    out.put(static_cast<std::uint32_t>(pending_->indices.size()));
    out.put_array(std::span(pending_->indices));
    out.put_array(std::span(pending_->values));
  }
  GLEANER_CHECK(bytes.size() == end);
}

Result<DeviceMemory> DeviceMemory::from_bytes(ByteView bytes, MemoryKind kind, std::uint32_t dimension) {
  const auto corrupt = [](std::string what) { return fail(ErrorCode::corrupt, "device memory: " + std::move(what)); };
  ByteReader in(bytes);
  const auto version = in.get<std::uint8_t>();
  const auto stored_kind = in.get<std::uint8_t>();
  const auto stored_dimension = in.get<std::uint32_t>();
  if (!in.ok()) return corrupt("cut off");
  if (version != kFormatVersion)
    return corrupt(fmt::format("version {}, this program reads {}", version, kFormatVersion));
  if (stored_kind != static_cast<std::uint8_t>(kind) || stored_dimension != dimension) {
    return corrupt(fmt::format("it is of kind {} with {} entries, the run wants kind {} with {}", stored_kind,
                               stored_dimension, static_cast<unsigned>(kind), dimension));
  }
  DeviceMemory memory(kind, 0);
  memory.dimension_ = dimension;
  if (!get_array(in, state_size(kind, dimension), memory.state_)) return corrupt("cut off");
  if (!all_finite(memory.state_)) return corrupt("a value is not finite");
  const auto has_pending = in.get<std::uint8_t>();
  if (!in.ok() || has_pending > 1) return corrupt("cut off or damaged before the pending entries");
  if (has_pending == 1) {
    SparseVector pending{.dimension = dimension};
    const auto count = in.get<std::uint32_t>();
    if (!get_array(in, count, pending.indices) || !get_array(in, count, pending.values)) return corrupt("cut off");
    if (!is_valid(pending)) return corrupt("pending entries are not valid");
    memory.pending_ = std::move(pending);
  }
  if (!in.at_end()) return corrupt(fmt::format("{} bytes too many", in.remaining()));
  return memory;
}

}  // namespace gleaner
