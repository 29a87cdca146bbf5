#include "compression/codec/group_head.hpp"

#include <fmt/format.h>

#include "compression/codec/value_codec.hpp"

namespace gleaner::codec {

Admitted<GroupHead> get_group_head(std::uint32_t size, EntryGrant grant, ByteReader& in) {
  const std::uint64_t count = in.get_varint();
  if (!in.ok()) return refuse(RefusalCode::malformed, "the count is cut off or not in its shortest form");
  if (count == 0) return GroupHead{};
  if (count > size || count > grant.left) {
    return refuse(RefusalCode::too_many_entries, fmt::format("{} entries in a group of {}, {} of {} granted are left",
                                                             count, size, grant.left, grant.granted));
  }
  const auto formats = in.get<std::uint8_t>();
  if (!in.ok()) return refuse(RefusalCode::malformed, "the group is cut off");
  const GroupHead head = {.count = static_cast<std::uint32_t>(count),
                          .index_format = static_cast<IndexFormat>(formats & 0xfU),
                          .value_format = static_cast<ValueFormat>(formats >> 4)};
  if (head.index_format > IndexFormat::blocks || head.value_format > ValueFormat::sign) {
    return refuse(RefusalCode::malformed, fmt::format("unknown formats {:#04x}", formats));
  }
  // The values alone need so much, so that a count that the bytes cannot hold costs no memory.
  if (in.remaining() < value_bytes(head.value_format, count)) {
    return refuse(RefusalCode::malformed, "the group is cut off");
  }
  return head;
}

}  // namespace gleaner::codec
