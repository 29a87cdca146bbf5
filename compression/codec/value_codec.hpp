#pragma once
// Values as bytes (grammar in docs/payload.md). Pure functions; what a peer sent is refused with the fault's code.
//   f32   the bits.
//   f16   one power of two for the group, then IEEE halves of value / 2^exponent.
//   int8  blocks of kInt8Block values: one power of two, then value / 2^exponent rounded to [-127, 127].
// Rounding is to nearest, ties to even. With a power of two as scale, the coded q of an f32 value x has its lowest bit
// no lower than x has, the same sign, and |q| <= 2 |x|: so x - q is exact in f32, and (x - q) + q is x.

#include <cstdint>
#include <span>

#include "common/bytes.hpp"
#include "common/refusal.hpp"
#include "compression/payload.hpp"

namespace gleaner::codec {

inline constexpr std::size_t kInt8Block = 128;

// Appends the values, clamped to [-clip, clip], and tells in sent what the decoder will see. Values are finite; sent
// has as many entries; clip is a power of two.
void put_values(ValueFormat format, std::span<const float> values, float clip, Bytes& out, std::span<float> sent);

// Reads out.size() values, finite and within the clip.
Admitted<void> get_values(ValueFormat format, float clip, ByteReader& in, std::span<float> out);

// The bytes of count values.
std::uint64_t value_bytes(ValueFormat format, std::uint64_t count);

}  // namespace gleaner::codec
