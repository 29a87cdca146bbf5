// payload = group*, one for every group of the run, in their order; nothing behind the last.
// group   = varint count; when count > 0: u8 formats (index format in the low four bits, value format in the high
//           ones), indices, values. docs/payload.md has the rest.

#include "compression/payload.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <string>

#include "common/check.hpp"
#include "common/text.hpp"
#include "compression/codec/group_head.hpp"
#include "compression/codec/index_codec.hpp"
#include "compression/codec/value_codec.hpp"
#include "compression/payload_faults.hpp"

namespace gleaner {
namespace {

bool is_power_of_two(float x) {
  return std::isnormal(x) && x > 0.0F && (std::bit_cast<std::uint32_t>(x) & 0x7fffffU) == 0;
}

std::uint64_t dimension_of(const Grouping& grouping) {
  return std::accumulate(grouping.sizes.begin(), grouping.sizes.end(), std::uint64_t{0});
}

void check_vector(const SparseVector& vector, const Grouping& grouping) {
  GLEANER_CHECK(dimension_of(grouping) == vector.dimension);
  GLEANER_CHECK(vector.indices.size() == vector.values.size());
  GLEANER_CHECK(vector.indices.empty() || vector.indices.back() < vector.dimension);
  GLEANER_CHECK(std::ranges::adjacent_find(vector.indices, std::ranges::greater_equal{}) == vector.indices.end());
}

// Reads one group behind what the vector has already; its coordinates start at offset.
class GroupReader {
 public:
  GroupReader(ByteReader& in, const PayloadLimits& limits, SparseVector& out) : in_(in), limits_(limits), out_(out) {}

  Admitted<void> read(std::uint32_t offset, std::uint32_t size) {
    const std::size_t before = out_.indices.size();
    const auto head = codec::get_group_head(size, {limits_.entries_max - before, limits_.entries_max}, in_);
    if (!head) return std::unexpected(head.error());
    if (head->count == 0) return {};
    out_.indices.resize(before + head->count);
    out_.values.resize(before + head->count);
    const auto indices = std::span(out_.indices).subspan(before);
    const std::size_t at_indices = in_.remaining();
    if (auto read = codec::get_indices(head->index_format, size, in_, indices); !read) return read;
    for (std::uint32_t& index : indices) index += offset;
    const std::size_t at_values = in_.remaining();
    index_bytes_ += at_indices - at_values;
    auto read = codec::get_values(head->value_format, limits_.clip, in_, std::span(out_.values).subspan(before));
    value_bytes_ += at_values - in_.remaining();
    return read;
  }

  std::uint64_t index_bytes() const { return index_bytes_; }
  std::uint64_t value_bytes() const { return value_bytes_; }

 private:
  ByteReader& in_;
  const PayloadLimits& limits_;
  SparseVector& out_;
  std::uint64_t index_bytes_ = 0;
  std::uint64_t value_bytes_ = 0;
};

}  // namespace

Result<ValueFormat> parse_value_format(std::string_view name) {
  std::vector<std::string> names;
  for (const ValueFormat format : kValueFormats) {
    if (to_string(format) == name) return format;
    names.emplace_back(to_string(format));
  }
  return fail(ErrorCode::bad_input,
              "unknown value format '" + std::string(name) + "': it is one of " + join_names(names));
}

std::string_view to_string(ValueFormat format) {
  switch (format) {
    case ValueFormat::f32: return "f32";
    case ValueFormat::f16: return "f16";
    case ValueFormat::int8: return "int8";
    case ValueFormat::bf16: return "bf16";
    case ValueFormat::int4: return "int4";
    case ValueFormat::ternary: return "ternary";
    case ValueFormat::sign: return "sign";
  }
  return "unknown";
}

std::string_view to_string(IndexFormat format) {
  switch (format) {
    case IndexFormat::list: return "list";
    case IndexFormat::dense: return "dense";
    case IndexFormat::bitmap: return "bitmap";
    case IndexFormat::golomb_rice: return "golomb-rice";
    case IndexFormat::elias_fano: return "elias-fano";
    case IndexFormat::blocks: return "blocks";
  }
  return "unknown";
}

EncodedPayload encode_payload(const SparseVector& vector, const Grouping& grouping, ValueFormat format, float clip,
                              IndexPreference preference) {
  check_vector(vector, grouping);
  GLEANER_CHECK(is_power_of_two(clip));
  EncodedPayload payload;
  payload.sent.resize(vector.values.size());
  std::vector<std::uint32_t> local;
  std::uint32_t offset = 0;
  std::size_t begin = 0;
  for (const std::uint32_t size : grouping.sizes) {
    const std::uint64_t offset_end = std::uint64_t{offset} + size;
    std::size_t end = begin;
    local.clear();
    for (; end < vector.indices.size() && vector.indices[end] < offset_end; ++end) {
      local.push_back(vector.indices[end] - offset);
    }
    const std::size_t at = payload.bytes.size();
    ByteWriter writer(payload.bytes);
    writer.put_varint(local.size());
    if (!local.empty()) {
      const codec::IndexPlan plan = codec::cheapest_indices(local, size, preference);
      writer.put(static_cast<std::uint8_t>(static_cast<unsigned>(plan.format) | static_cast<unsigned>(format) << 4));
      codec::put_indices(plan, local, size, payload.bytes);
      const std::size_t values_at = payload.bytes.size();
      codec::put_values(format, std::span(vector.values).subspan(begin, local.size()), clip, payload.bytes,
                        std::span(payload.sent).subspan(begin, local.size()));
      payload.split.index_bytes += plan.bytes;
      payload.split.value_bytes += payload.bytes.size() - values_at;
      payload.split.framing_bytes += values_at - at - plan.bytes;
      payload.split.index_floor_bits += codec::index_floor_bits(size, static_cast<std::uint32_t>(local.size()));
    } else {
      payload.split.framing_bytes += payload.bytes.size() - at;
    }
    begin = end;
    offset = static_cast<std::uint32_t>(offset_end);
  }
  return payload;
}

Admitted<SparseVector> decode_payload(ByteView bytes, const Grouping& grouping, const PayloadLimits& limits,
                                      PayloadBytes* split) {
  const std::uint64_t dimension = dimension_of(grouping);
  GLEANER_CHECK(dimension <= std::numeric_limits<std::uint32_t>::max() && limits.clip > 0.0F);
  SparseVector vector{.dimension = static_cast<std::uint32_t>(dimension)};
  // A value has at least one bit.
  const std::uint64_t entries_max =
      std::min({std::uint64_t{limits.entries_max}, dimension, std::uint64_t{8} * bytes.size()});
  vector.indices.reserve(entries_max);
  vector.values.reserve(entries_max);
  ByteReader in(bytes);
  GroupReader reader(in, limits, vector);
  std::uint32_t offset = 0;
  for (std::size_t group = 0; group < grouping.sizes.size(); ++group) {
    if (auto read = reader.read(offset, grouping.sizes[group]); !read) return in_group(group, read.error());
    offset += grouping.sizes[group];
  }
  if (!in.at_end()) return trailing(in.remaining());
  if (split != nullptr) {
    *split = {.value_bytes = reader.value_bytes(),
              .index_bytes = reader.index_bytes(),
              .framing_bytes = bytes.size() - reader.value_bytes() - reader.index_bytes()};
  }
  return vector;
}

std::uint64_t payload_bytes_max(const Grouping& grouping, std::uint32_t entries_max) {
  constexpr std::uint64_t kFramingMax = 5 + 1;  // a varint of 32 bits and the formats
  std::uint64_t bitmaps = 0;
  for (const std::uint32_t size : grouping.sizes) bitmaps += (std::uint64_t{size} + 7) / 8;
  const std::uint64_t entries = std::min<std::uint64_t>(entries_max, dimension_of(grouping));
  // f32 is the widest value format, scales included; no index format is chosen that needs more than list or bitmap.
  return kFramingMax * grouping.sizes.size() + std::min(4 * entries, bitmaps) + 4 * entries;
}

}  // namespace gleaner
