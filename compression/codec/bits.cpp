#include "compression/codec/bits.hpp"

#include <algorithm>
#include <utility>

#include "common/check.hpp"

namespace gleaner::codec {
namespace {

// Eight fields fill whole bytes, so that with the width known every offset and shift is a constant. Reads up to eight
// bytes behind the last field.
template <unsigned kBits>
void unpack(const std::byte* from, std::size_t groups, std::uint32_t* out) {
  constexpr std::uint64_t kMask = (std::uint64_t{1} << kBits) - 1;
  for (std::size_t g = 0; g < groups; ++g, from += kBits, out += 8) {
    [&]<std::size_t... kField>(std::index_sequence<kField...>) {
      (
          [&] {
            std::uint64_t word = 0;
            std::memcpy(&word, from + kField * kBits / 8, 8);
            out[kField] = static_cast<std::uint32_t>(word >> (kField * kBits % 8) & kMask);
          }(),
          ...);
    }(std::make_index_sequence<8>{});
  }
}

template <unsigned kBits>
void pack(const std::uint32_t* values, std::size_t groups, std::byte* to) {
  constexpr std::uint64_t kMask = (std::uint64_t{1} << kBits) - 1;
  for (std::size_t g = 0; g < groups; ++g, values += 32) {
    std::uint64_t pending = 0;
    [&]<std::size_t... kField>(std::index_sequence<kField...>) {
      (
          [&] {
            constexpr unsigned kUsed = kField * kBits % 32;
            pending |= (values[kField] & kMask) << kUsed;
            if constexpr (kUsed + kBits >= 32) {
              const auto word = static_cast<std::uint32_t>(pending);
              std::memcpy(to, &word, 4);
              to += 4;
              pending >>= 32;
            }
          }(),
          ...);
    }(std::make_index_sequence<32>{});
  }
}

using Unpack = void (*)(const std::byte*, std::size_t, std::uint32_t*);
using Pack = void (*)(const std::uint32_t*, std::size_t, std::byte*);

template <unsigned... kBits>
constexpr auto unpackers(std::integer_sequence<unsigned, kBits...>) {
  return std::array<Unpack, sizeof...(kBits)>{&unpack<kBits>...};
}
template <unsigned... kBits>
constexpr auto packers(std::integer_sequence<unsigned, kBits...>) {
  return std::array<Pack, sizeof...(kBits)>{&pack<kBits>...};
}

constexpr auto kUnpackers = unpackers(std::make_integer_sequence<unsigned, kLowBitsMax + 1>{});
constexpr auto kPackers = packers(std::make_integer_sequence<unsigned, kLowBitsMax + 1>{});

}  // namespace

void unpack_fields(ByteView bytes, unsigned bits, std::span<std::uint32_t> out) {
  constexpr std::size_t kSlack = 8;
  const std::size_t groups = (out.size() + 7) / 8;
  if (out.size() % 8 == 0 && bytes.size() >= groups * bits + kSlack) [[likely]] {
    kUnpackers[bits](bytes.data(), groups, out.data());
    return;
  }
  // Near the end of the bytes, or fewer than eight fields: from a copy that has room on both sides.
  std::array<std::byte, kBlockEntries * kLowBitsMax / 8 + kSlack> from{};
  std::array<std::uint32_t, kBlockEntries> fields;
  const std::size_t held = bytes_for_bits(std::uint64_t{bits} * out.size());
  GLEANER_CHECK(out.size() <= kBlockEntries && held <= bytes.size());
  if (held > 0) std::memcpy(from.data(), bytes.data(), held);
  kUnpackers[bits](from.data(), groups, fields.data());
  std::copy_n(fields.begin(), out.size(), out.begin());
}

void pack_fields(std::span<const std::uint32_t> values, unsigned bits, std::byte* to) {
  GLEANER_CHECK(values.size() % 32 == 0);
  kPackers[bits](values.data(), values.size() / 32, to);
}

}  // namespace gleaner::codec
