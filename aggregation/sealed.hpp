#pragma once
// Stored bytes that end in the XXH3-64 of what goes before.

#include <cstddef>

#include "common/bytes.hpp"
#include "common/hash.hpp"

namespace gleaner {

inline constexpr std::size_t kSealBytes = sizeof(Digest::value);

// begin: where the sealed part starts.
inline void seal(Bytes& bytes, std::size_t begin = 0) {
  const Digest digest = digest_of(ByteView(bytes).subspan(begin));
  ByteWriter(bytes).put(digest.value);
}

// False when the digest does not match; body is what goes before it.
inline bool unseal(ByteView sealed, ByteView& body) {
  if (sealed.size() < kSealBytes) return false;
  body = sealed.first(sealed.size() - kSealBytes);
  ByteReader tail(sealed.subspan(body.size()));
  return tail.get<std::uint64_t>() == digest_of(body).value;
}

}  // namespace gleaner
