#pragma once
// What stands before a group's indices: how many entries it has, and how they are coded.

#include <cstdint>

#include "common/bytes.hpp"
#include "common/refusal.hpp"
#include "compression/payload.hpp"

namespace gleaner::codec {

struct GroupHead {
  std::uint32_t count = 0;  // 0: nothing follows, and the formats mean nothing
  IndexFormat index_format = IndexFormat::list;
  ValueFormat value_format = ValueFormat::f32;
};

// left: how many entries the sender may still have, of granted ones. More than these, and more than the bytes hold, is
// refused before the caller takes memory for them.
struct EntryGrant {
  std::uint64_t left = 0;
  std::uint64_t granted = 0;
};
Admitted<GroupHead> get_group_head(std::uint32_t size, EntryGrant grant, ByteReader& in);

}  // namespace gleaner::codec
