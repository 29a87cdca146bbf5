#include "common/hash.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace gleaner {

Digest digest_of(std::span<const std::byte> bytes) { return {XXH3_64bits(bytes.data(), bytes.size())}; }

std::uint64_t hash_of(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

}  // namespace gleaner
