#pragma once
// The payload format: a sparse vector as bytes. Per tensor group: index format, value format, count, then the coded
// indices and values (byte grammar in payload.cpp and docs/protocol.md). The encoder picks the index format with the
// fewest bytes by exact count; the decoder is strict, allocates only what was granted, and names the fault.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/bytes.hpp"
#include "common/error.hpp"
#include "common/refusal.hpp"

namespace gleaner {

// dimension entries of which indices (ascending, each once, below dimension) have the values; all others are zero.
struct SparseVector {
  std::uint32_t dimension = 0;
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
};

// Values are stored and sent: never renumber.
enum class IndexFormat : std::uint8_t { list = 0, dense = 1, bitmap = 2, golomb_rice = 3, elias_fano = 4, blocks = 5 };
enum class ValueFormat : std::uint8_t { f32 = 0, f16 = 1, int8 = 2, bf16 = 3, int4 = 4, ternary = 5, sign = 6 };
inline constexpr std::array kValueFormats = {ValueFormat::f32,  ValueFormat::f16,  ValueFormat::int8,
                                             ValueFormat::bf16, ValueFormat::int4, ValueFormat::ternary,
                                             ValueFormat::sign};

// What an encoder looks for in an index format: the fewest bytes, or the fewest among those that decode fastest (about
// a sixteenth more bytes on a random index set for twice the speed).
enum class IndexPreference : std::uint8_t { bytes, speed };

Result<ValueFormat> parse_value_format(std::string_view name);  // an unknown name lists the candidates
std::string_view to_string(ValueFormat format);
std::string_view to_string(IndexFormat format);

// How the coordinates fall into groups, each coded on its own: one group for the whole model, or one a tensor. The
// sizes add up to the dimension.
struct Grouping {
  std::vector<std::uint32_t> sizes;
};

// Where the bytes of a payload went; value + index + framing = all.
struct PayloadBytes {
  std::uint64_t value_bytes = 0;
  std::uint64_t index_bytes = 0;
  std::uint64_t framing_bytes = 0;
  double index_floor_bits = 0.0;  // log2 C(size, count) summed over the groups: the entropy of a random index set
};

struct EncodedPayload {
  Bytes bytes;
  std::vector<float> sent;  // for every input index in order, the value that the decoder will see
  PayloadBytes split;
};

// Values are clamped to [-clip, clip] first (clip > 0 and finite, a power of two); what lies beyond stays with the
// caller. Every sent value q of a value |x| < 2^24 clip makes x - q and (x - q) + q exact in f32, so that taking it out
// of a residual and putting it back restores x (a zero comes back as +0). Beyond 2^24 clip the clip is lost in x's last
// place: DeviceMemory refuses such values. Values must be finite (GLEANER_CHECK: selections report the others).
EncodedPayload encode_payload(const SparseVector& vector, const Grouping& grouping, ValueFormat format, float clip,
                              IndexPreference preference = IndexPreference::bytes);

struct PayloadLimits {
  std::uint32_t entries_max = 0;  // the grant; nothing is allocated beyond it
  float clip = 0.0F;              // |value| above it is refused (over_bound)
};

// split: where the bytes went, but for the floor, when it is asked for and the payload is admitted. payload_cursor.hpp
// reads the same without vectors.
Admitted<SparseVector> decode_payload(ByteView bytes, const Grouping& grouping, const PayloadLimits& limits,
                                      PayloadBytes* split = nullptr);

// An upper bound of the bytes of any payload with so many entries: what a receiver must be ready to hold.
std::uint64_t payload_bytes_max(const Grouping& grouping, std::uint32_t entries_max);

}  // namespace gleaner
