#include "compression/payload_cursor.hpp"

#include <algorithm>
#include <limits>

#include "common/check.hpp"
#include "compression/codec/group_head.hpp"
#include "compression/codec/value_codec.hpp"
#include "compression/payload_faults.hpp"

namespace gleaner {

Admitted<PayloadCursor> PayloadCursor::open(ByteView bytes, const Grouping& grouping, const PayloadLimits& limits) {
  GLEANER_CHECK(limits.clip > 0.0F);
  PayloadCursor cursor;
  cursor.clip_ = limits.clip;
  ByteReader in(bytes);
  std::uint64_t offset = 0;
  for (std::size_t g = 0; g < grouping.sizes.size(); ++g) {
    const std::uint32_t size = grouping.sizes[g];
    const codec::EntryGrant grant = {limits.entries_max - cursor.entries_, limits.entries_max};
    const auto head = codec::get_group_head(size, grant, in);
    if (!head) return in_group(g, head.error());
    if (head->count > 0) {
      Group group = {.index_format = head->index_format,
                     .value_format = head->value_format,
                     .offset = static_cast<std::uint32_t>(offset),
                     .size = size,
                     .count = head->count,
                     .indices = {},
                     .values = {}};
      if (auto located = cursor.locate(group, in); !located) return in_group(g, located.error());
      cursor.split_.index_bytes += group.indices.size();
      cursor.split_.value_bytes += group.values.size();
      cursor.groups_.push_back(group);
      cursor.entries_ += group.count;
    }
    offset += size;
  }
  GLEANER_CHECK(offset <= std::numeric_limits<std::uint32_t>::max());
  cursor.dimension_ = static_cast<std::uint32_t>(offset);
  if (!in.at_end()) return trailing(in.remaining());
  cursor.split_.framing_bytes = bytes.size() - cursor.split_.value_bytes - cursor.split_.index_bytes;
  return cursor;
}

Admitted<void> PayloadCursor::locate(Group& group, ByteReader& in) {
  ByteReader rest = in;
  const auto stream =
      codec::open_indices(group.index_format, group.size, group.count, rest.get_bytes(rest.remaining()));
  if (!stream) return std::unexpected(stream.error());
  const auto index_bytes = codec::extent_of_indices(*stream);
  if (!index_bytes) return std::unexpected(index_bytes.error());
  group.indices = in.get_bytes(*index_bytes);
  const std::uint64_t value_bytes = codec::value_bytes(group.value_format, group.count);
  if (in.remaining() < value_bytes) return refuse(RefusalCode::malformed, "the values are cut off");
  group.values = in.get_bytes(value_bytes);
  return {};
}

Admitted<void> PayloadCursor::enter(const Group& group) {
  auto indices = codec::open_indices(group.index_format, group.size, group.count, group.indices);
  if (!indices) return std::unexpected(indices.error());
  auto values = codec::ValueStream::open(group.value_format, clip_, group.count, group.values);
  if (!values) return std::unexpected(values.error());
  index_stream_ = *std::move(indices);
  value_stream_ = *std::move(values);
  left_ = group.count;
  offset_ = group.offset;
  return {};
}

// What the index format promises behind the last entry, and that it ends where extent() said.
Admitted<void> PayloadCursor::leave() const {
  const auto end = codec::finish_indices(*index_stream_);
  if (!end) return std::unexpected(end.error());
  if (*end != groups_[group_ - 1].indices.size()) {
    return refuse(RefusalCode::malformed, "the indices end elsewhere than their last entry");
  }
  return {};
}

Admitted<PayloadCursor::Block> PayloadCursor::next() {
  if (left_ == 0) {
    if (group_ == groups_.size()) return Block{};
    if (auto entered = enter(groups_[group_]); !entered) return in_group(group_, entered.error());
    ++group_;
  }
  const std::size_t n = std::min<std::size_t>(left_, codec::kBlockEntries);
  const auto indices = std::span(indices_).first(n);
  const auto values = std::span(values_).first(n);
  left_ -= static_cast<std::uint32_t>(n);
  auto read = codec::next_indices(*index_stream_, indices);
  if (read) read = value_stream_->next(values);
  if (read && left_ == 0) read = leave();
  if (!read) return in_group(group_ - 1, read.error());
  if (offset_ != 0) {
    for (std::uint32_t& index : indices) index += offset_;
  }
  return Block{indices, values};
}

}  // namespace gleaner
