#pragma once
// 64-bit integers, most of them zero, as bytes: what a round's sum is stored as.
//
//   coded  := u8 form, u8 shift, entries
//   form 0 := varint count, then count times (varint gap, varint zigzag(value >> shift)); gap counts the zeros skipped
//   form 1 := dimension times varint zigzag(value >> shift)
//
// shift is the number of low bits that are zero in every value (0 when all are zero). The form with fewer bytes by
// exact count is taken, form 0 at a tie, so that equal integers are equal bytes.

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/bytes.hpp"
#include "common/error.hpp"

namespace gleaner {

// bytes_after: what the caller appends then, without the vector growing for it.
void put_integers(Bytes& out, std::span<const std::int64_t> values, std::size_t bytes_after = 0);

// Fills `values` (all zero before); magnitudes above `bound` and any other spelling than put_integers' are corrupt.
// After an error values are undefined but in bounds.
Status get_integers(ByteReader& in, std::span<std::int64_t> values, std::uint64_t bound);

}  // namespace gleaner
