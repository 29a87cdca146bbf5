#pragma once
// Values as bytes (grammar in docs/payload.md). Pure functions; what a peer sent is refused with the fault's code.
//   f32      the bits.
//   f16      one power of two for the group, then IEEE halves of value / 2^exponent.
//   bf16     the upper half of the bits.
//   int8     blocks of 128 values: one power of two, then value / 2^exponent rounded to [-127, 127].
//   int4     blocks of 64 values: the same with [-7, 7].
//   ternary  blocks of 128 values: one power of two s, then for every value the nearest of -s, 0 and s.
//   sign     blocks of 128 values: one power of two s, then -s or s.
// Rounding is to nearest, ties to even. With a power of two as scale, the coded q of an f32 value x has its lowest bit
// no lower than x has, the same sign, and |q| <= 2 |x|: so x - q is exact in f32, and (x - q) + q is x. ternary and
// sign choose s so that this holds, and of what is left the s with the smaller squared error (a scaled sign with error
// feedback: Karimireddy et al. 2019; ternary after top-k: Sattler et al. 2019). For sign, twice the block's least value
// bounds s; where values of one block lie so far apart that no s is exact for all, the block is sent as zeros.

#include <cstdint>
#include <span>

#include "common/bytes.hpp"
#include "common/refusal.hpp"
#include "compression/payload.hpp"

namespace gleaner::codec {

// Appends the values, clamped to [-clip, clip], and tells in sent what the decoder will see. Values are finite; sent
// has as many entries; clip is a power of two.
void put_values(ValueFormat format, std::span<const float> values, float clip, Bytes& out, std::span<float> sent);

// Reads out.size() > 0 values, finite and within the clip. value_stream.hpp reads in blocks.
Admitted<void> get_values(ValueFormat format, float clip, ByteReader& in, std::span<float> out);

// The bytes of count values.
std::uint64_t value_bytes(ValueFormat format, std::uint64_t count);

// How many values share a scale; 0 for the formats without blocks.
std::size_t block_entries(ValueFormat format);

}  // namespace gleaner::codec
