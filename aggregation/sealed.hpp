#pragma once
// Stored bytes that end in the XXH3-64 of what goes before.

#include "common/bytes.hpp"
#include "common/hash.hpp"

namespace gleaner {

inline void seal(Bytes& bytes) {
  const Digest digest = digest_of(bytes);
  ByteWriter(bytes).put(digest.value);
}

// False when the digest does not match; body is what goes before it.
inline bool unseal(ByteView sealed, ByteView& body) {
  if (sealed.size() < sizeof(Digest::value)) return false;
  body = sealed.first(sealed.size() - sizeof(Digest::value));
  ByteReader tail(sealed.subspan(body.size()));
  return tail.get<std::uint64_t>() == digest_of(body).value;
}

}  // namespace gleaner
