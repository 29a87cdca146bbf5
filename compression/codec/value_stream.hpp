#pragma once
// Reads one group's values in blocks (grammar in docs/payload.md). Strict, as index_stream.hpp.

#include <cstddef>
#include <span>

#include "common/bytes.hpp"
#include "common/refusal.hpp"
#include "compression/payload.hpp"

namespace gleaner::codec {

class ValueStream {
 public:
  // in: from the values on, to the end of the payload; count > 0. A group whose values the bytes do not hold is
  // refused.
  static Admitted<ValueStream> open(ValueFormat format, float clip, std::size_t count, ByteView in);

  // Reads the next values, finite and within the clip: kBlockEntries of them, or what is left.
  Admitted<void> next(std::span<float> out);

 private:
  ValueStream(ValueFormat format, float clip, ByteView in) : format_(format), clip_(clip), in_(in) {}
  Admitted<void> decode(std::span<float> out);

  ValueFormat format_;
  float clip_;
  ByteView in_;         // what next() has not read
  float scale_ = 1.0F;  // f16: of the group
};

}  // namespace gleaner::codec
