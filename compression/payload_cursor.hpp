#pragma once
// Reads a payload block by block from the bytes as they came, so that it can be folded without vectors of its indices
// and values, and many of them side by side. open() finds where each part is; a fault within a part shows when next()
// gets there, so that what was folded until then must be taken back. The cursor refuses what decode_payload refuses and
// nothing else; of several faults it may name another one.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/bytes.hpp"
#include "common/refusal.hpp"
#include "compression/codec/index_stream.hpp"
#include "compression/codec/value_stream.hpp"
#include "compression/payload.hpp"

namespace gleaner {

class PayloadCursor {
 public:
  // At most codec::kBlockEntries entries, of one group; valid until the next call.
  struct Block {
    std::span<const std::uint32_t> indices;  // ascending, within the whole vector
    std::span<const float> values;           // finite, within the clip
  };

  // The bytes must outlive the cursor and stay as they are; grouping need not. No memory is taken for entries.
  static Admitted<PayloadCursor> open(ByteView bytes, const Grouping& grouping, const PayloadLimits& limits);

  std::uint32_t dimension() const { return dimension_; }
  std::uint64_t entries() const { return entries_; }    // of the whole payload, as its groups announce
  const PayloadBytes& split() const { return split_; }  // true when next() has come to the end

  // The next entries in ascending order; none behind the last. After a refusal only rewind() is left.
  Admitted<Block> next();
  void rewind() { group_ = left_ = 0; }

 private:
  // A group with entries, and where in the bytes its parts are.
  struct Group {
    IndexFormat index_format;
    ValueFormat value_format;
    std::uint32_t offset;  // of its coordinates
    std::uint32_t size;
    std::uint32_t count;
    ByteView indices;
    ByteView values;
  };

  PayloadCursor() = default;
  Admitted<void> locate(Group& group, ByteReader& in);
  Admitted<void> enter(const Group& group);
  Admitted<void> leave() const;

  std::uint32_t dimension_ = 0;
  std::uint64_t entries_ = 0;
  float clip_ = 0.0F;
  PayloadBytes split_;
  std::vector<Group> groups_;
  std::size_t group_ = 0;   // the next to enter
  std::uint32_t left_ = 0;  // entries of the one that was entered
  std::uint32_t offset_ = 0;
  std::optional<codec::IndexStream> index_stream_;
  std::optional<codec::ValueStream> value_stream_;
  std::array<std::uint32_t, codec::kBlockEntries> indices_;
  std::array<float, codec::kBlockEntries> values_;
};

}  // namespace gleaner
