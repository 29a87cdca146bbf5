// Whatever the bytes, decode_payload returns a refusal or a vector that is safe to fold, the cursor refuses the same
// payloads and hands out nothing that is not safe to fold before it does, and what was accepted and is coded again
// decodes to the same vector. The first bytes choose the groups, the grant and the clip.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

#include "common/check.hpp"
#include "compression/payload.hpp"
#include "compression/payload_cursor.hpp"

namespace gleaner {
namespace {

void check_valid(const SparseVector& vector, const Grouping& grouping, const PayloadLimits& limits) {
  std::uint32_t dimension = 0;
  for (const std::uint32_t size : grouping.sizes) dimension += size;
  GLEANER_CHECK(vector.dimension == dimension);
  GLEANER_CHECK(vector.indices.size() == vector.values.size() && vector.indices.size() <= limits.entries_max);
  GLEANER_CHECK(vector.indices.capacity() <= limits.entries_max && vector.values.capacity() <= limits.entries_max);
  for (std::size_t j = 0; j < vector.indices.size(); ++j) {
    GLEANER_CHECK(vector.indices[j] < dimension && (j == 0 || vector.indices[j] > vector.indices[j - 1]));
    GLEANER_CHECK(std::fabs(vector.values[j]) <= limits.clip);
  }
}

void check_cursor(ByteView bytes, const Grouping& grouping, const PayloadLimits& limits,
                  const Admitted<SparseVector>& decoded) {
  auto cursor = PayloadCursor::open(bytes, grouping, limits);
  GLEANER_CHECK(cursor.has_value() || !decoded.has_value());
  if (!cursor) return;
  std::uint64_t at = 0;
  for (;;) {
    const auto block = cursor->next();
    GLEANER_CHECK(block.has_value() || !decoded.has_value());
    if (!block) return;
    if (block->indices.empty()) break;
    const std::size_t n = block->indices.size();
    // What comes before a fault is folded too.
    GLEANER_CHECK(block->values.size() == n && at + n <= limits.entries_max);
    GLEANER_CHECK(block->indices.back() < cursor->dimension());
    GLEANER_CHECK(std::ranges::all_of(block->values, [&](float value) { return std::fabs(value) <= limits.clip; }));
    if (decoded) {
      GLEANER_CHECK(at + n <= decoded->indices.size());
      GLEANER_CHECK(std::ranges::equal(block->indices, std::span(decoded->indices).subspan(at, n)));
      GLEANER_CHECK(std::ranges::equal(block->values, std::span(decoded->values).subspan(at, n)));
    }
    at += n;
  }
  GLEANER_CHECK(decoded.has_value() && at == decoded->indices.size() && at == cursor->entries());
}

void run(ByteView input) {
  ByteReader in(input);
  const unsigned groups = in.get<std::uint8_t>() % 5;
  Grouping grouping;
  for (unsigned g = 0; g < groups; ++g) {
    const auto size = in.get<std::uint16_t>();
    grouping.sizes.push_back(size % 7 == 0 ? std::uint32_t{size} << 12 : size % 1'000);
  }
  const PayloadLimits limits = {.entries_max = in.get<std::uint16_t>(),
                                .clip = std::bit_cast<float>(std::uint32_t{in.get<std::uint8_t>() % 254U + 1} << 23)};
  const ByteView bytes = in.get_bytes(in.remaining());
  const auto decoded = decode_payload(bytes, grouping, limits);
  check_cursor(bytes, grouping, limits, decoded);
  if (!decoded) return;
  check_valid(*decoded, grouping, limits);
  for (const ValueFormat format : kValueFormats) {
    const EncodedPayload payload = encode_payload(*decoded, grouping, format, limits.clip);
    const auto again = decode_payload(payload.bytes, grouping, limits);
    GLEANER_CHECK(again.has_value() && again->indices == decoded->indices && again->values == payload.sent);
    if (format == ValueFormat::f32) GLEANER_CHECK(again->values == decoded->values);
  }
}

}  // namespace
}  // namespace gleaner

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  gleaner::run(std::as_bytes(std::span(bytes, size)));
  return 0;
}
