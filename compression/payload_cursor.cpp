#include "compression/payload_cursor.hpp"

#include <algorithm>
#include <limits>

#include "common/check.hpp"
#include "compression/codec/group_head.hpp"
#include "compression/codec/index_codec.hpp"
#include "compression/codec/value_codec.hpp"
#include "compression/payload_faults.hpp"

namespace gleaner {

Admitted<PayloadCursor> PayloadCursor::open(ByteView bytes, const Grouping& grouping, const PayloadLimits& limits,
                                            PayloadBytes* split) {
  GLEANER_CHECK(limits.clip > 0.0F);
  PayloadCursor cursor;
  cursor.clip_ = limits.clip;
  PayloadBytes where;
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
                     .indices = bytes.last(in.remaining())};
      if (auto read = codec::check_indices(group.index_format, size, group.count, in); !read) {
        return in_group(g, read.error());
      }
      group.values = bytes.last(in.remaining());
      if (auto read = codec::check_values(group.value_format, limits.clip, group.count, in); !read) {
        return in_group(g, read.error());
      }
      where.index_bytes += group.indices.size() - group.values.size();
      where.value_bytes += group.values.size() - in.remaining();
      cursor.groups_.push_back(group);
      cursor.entries_ += group.count;
    }
    offset += size;
  }
  GLEANER_CHECK(offset <= std::numeric_limits<std::uint32_t>::max());
  cursor.dimension_ = static_cast<std::uint32_t>(offset);
  if (!in.at_end()) return trailing(in.remaining());
  where.framing_bytes = bytes.size() - where.value_bytes - where.index_bytes;
  if (split != nullptr) *split = where;
  return cursor;
}

void PayloadCursor::enter(const Group& group) {
  auto indices = codec::open_indices(group.index_format, group.size, group.count, group.indices);
  auto values = codec::ValueStream::open(group.value_format, clip_, group.count, group.values);
  GLEANER_CHECK(indices.has_value() && values.has_value());
  index_stream_ = *std::move(indices);
  value_stream_ = *std::move(values);
  left_ = group.count;
  offset_ = group.offset;
}

PayloadCursor::Block PayloadCursor::next() {
  if (left_ == 0) {
    if (group_ == groups_.size()) return {};
    enter(groups_[group_++]);
  }
  const std::size_t n = std::min<std::size_t>(left_, codec::kBlockEntries);
  const auto indices = std::span(indices_).first(n);
  const auto values = std::span(values_).first(n);
  // They were read before without a fault: one now means that the bytes have changed.
  GLEANER_CHECK(codec::next_indices(*index_stream_, indices).has_value() && value_stream_->next(values).has_value());
  if (offset_ != 0) {
    for (std::uint32_t& index : indices) index += offset_;
  }
  left_ -= static_cast<std::uint32_t>(n);
  return {indices, values};
}

}  // namespace gleaner
