#pragma once
// Bits in bytes, from the lowest place on: the building blocks of the index codes. Packed fields of one width are read
// and written many at a time, and set bits are listed a byte at a time from a table, so that no step waits for a branch
// that the data decides.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "common/bytes.hpp"

namespace gleaner::codec {

inline constexpr std::size_t kBlockEntries = 256;  // what a decoder hands on at a time
inline constexpr unsigned kLowBitsMax = 31;

constexpr std::uint64_t bytes_for_bits(std::uint64_t bits) { return (bits + 7) / 8; }

// Four numbers in a vector register of any machine.
using Quad = std::uint32_t __attribute__((vector_size(16)));

inline Quad load_quad(const std::uint32_t* from) {
  Quad quad;
  std::memcpy(&quad, from, sizeof quad);
  return quad;
}
inline void store_quad(Quad quad, std::uint32_t* to) { std::memcpy(to, &quad, sizeof quad); }

// For every byte the places of its ones, in order; the rest is 0.
struct SetBits {
  alignas(64) std::array<std::array<std::uint32_t, 8>, 256> places{};
  std::array<std::uint8_t, 256> counts{};
};

constexpr SetBits make_set_bits() {
  SetBits table;
  for (unsigned byte = 0; byte < 256; ++byte) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      if ((byte >> bit & 1U) != 0) table.places[byte][table.counts[byte]++] = bit;
    }
  }
  return table;
}
inline constexpr SetBits kSetBits = make_set_bits();

// Writes base + place for every one of the byte; eight entries of `to` are overwritten whatever their number. Returns
// the end of what counts.
inline std::uint32_t* list_ones(std::uint32_t base, std::byte byte, std::uint32_t* to) {
  const auto value = std::to_integer<std::size_t>(byte);
  const std::array<std::uint32_t, 8>& places = kSetBits.places[value];
  store_quad(load_quad(places.data()) + base, to);
  store_quad(load_quad(places.data() + 4) + base, to + 4);
  return to + kSetBits.counts[value];
}

// The ones of 8 bytes at most; fewer at the end of the view.
inline std::uint64_t load_word(ByteView bytes, std::size_t at) {
  std::uint64_t word = 0;
  if (at + 8 <= bytes.size()) {
    std::memcpy(&word, bytes.data() + at, 8);
  } else if (at < bytes.size()) {
    std::memcpy(&word, bytes.data() + at, bytes.size() - at);
  }
  return word;
}

// Appends bits, the first in the lowest place, to space that was made before.
class BitWriter {
 public:
  explicit BitWriter(std::byte* to) : to_(to) {}

  void put(std::uint64_t value, unsigned bits) {  // bits <= 32, value below 2^bits
    pending_ |= value << used_;
    used_ += bits;
    if (used_ >= 32) {
      const auto word = static_cast<std::uint32_t>(pending_);
      std::memcpy(to_, &word, 4);
      to_ += 4;
      pending_ >>= 32;
      used_ -= 32;
    }
  }
  // Zeros without bound, then a one.
  void put_unary(std::uint64_t zeros) {
    for (; zeros >= 31; zeros -= 31) put(0, 31);
    put(std::uint64_t{1} << zeros, static_cast<unsigned>(zeros) + 1);
  }
  std::byte* finish() {
    for (; used_ > 0; used_ -= used_ < 8 ? used_ : 8U, pending_ >>= 8) *to_++ = static_cast<std::byte>(pending_);
    return to_;
  }

 private:
  std::byte* to_;
  std::uint64_t pending_ = 0;
  unsigned used_ = 0;  // below 32 between calls
};

// Fields of `bits` bits each, one behind the other: field j starts at bit j * bits. bits <= kLowBitsMax.
// Reads out.size() <= kBlockEntries fields from the start of the view, which holds them all.
void unpack_fields(ByteView bytes, unsigned bits, std::span<std::uint32_t> out);

// Packs the low `bits` bits of the values (a multiple of 32 of them) into 4 * bits bytes for every 32.
void pack_fields(std::span<const std::uint32_t> values, unsigned bits, std::byte* to);

}  // namespace gleaner::codec
