#pragma once
// Damage as a wire or a hostile peer does it: a few bytes flipped, replaced, dropped or put in.

#include "common/bytes.hpp"
#include "common/random.hpp"

namespace gleaner::testing {

inline Bytes corrupted(Random& random, Bytes bytes) {
  const auto at = [&] { return random.below(static_cast<std::uint32_t>(bytes.size())); };
  for (std::uint32_t edits = 1 + random.below(4); edits > 0 && !bytes.empty(); --edits) {
    switch (random.below(4)) {
      case 0: bytes[at()] ^= static_cast<std::byte>(1U << random.below(8)); break;
      case 1: bytes[at()] = static_cast<std::byte>(random.below(256)); break;
      case 2: bytes.erase(bytes.begin() + at()); break;
      default: bytes.insert(bytes.begin() + at(), static_cast<std::byte>(random.below(256))); break;
    }
  }
  return bytes;
}

}  // namespace gleaner::testing
