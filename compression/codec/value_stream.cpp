#include "compression/codec/value_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "compression/codec/value_codec.hpp"
#include "compression/codec/value_scales.hpp"

namespace gleaner::codec {
namespace {

// For every byte below kTritBytes its five levels, lowest place first.
constexpr auto make_trits() {
  std::array<std::array<std::int8_t, 8>, kTritBytes> table{};
  for (unsigned byte = 0; byte < kTritBytes; ++byte) {
    unsigned rest = byte;
    for (std::size_t place = 0; place < kTritsInByte; ++place, rest /= 3) {
      table[byte][place] = rest % 3 == 2 ? std::int8_t{-1} : static_cast<std::int8_t>(rest % 3);
    }
  }
  return table;
}
constexpr auto kTrits = make_trits();

Admitted<float> get_scale(ExponentRange range, std::byte byte) {
  const int exponent = static_cast<std::int8_t>(byte);
  if (exponent < range.least || exponent > range.most) {
    return refuse(RefusalCode::malformed, fmt::format("scale 2^{}", exponent));
  }
  return power_of_two(exponent);
}

std::unexpected<Refusal> bad_padding() {
  return refuse(RefusalCode::malformed, "padding bits behind the values are not zero");
}

// The codes of one block behind its scale, into out.size() values.
using DecodeBlock = Admitted<void> (*)(ByteView codes, float scale, std::span<float> out);

Admitted<void> decode_int8(ByteView codes, float scale, std::span<float> out) {
  bool outside = false;
  for (std::size_t j = 0; j < out.size(); ++j) {
    const auto level = static_cast<std::int8_t>(codes[j]);
    outside |= level == -128;
    out[j] = static_cast<float>(level) * scale;
  }
  if (outside) return refuse(RefusalCode::malformed, "level -128 of an int8 value");
  return {};
}

Admitted<void> decode_int4(ByteView codes, float scale, std::span<float> out) {
  std::array<std::int8_t, kInt4Block> levels;
  bool outside = false;
  for (std::size_t j = 0; j < codes.size(); ++j) {
    const auto pair = std::to_integer<int>(codes[j]);
    const int low = ((pair & 15) ^ 8) - 8;
    const int high = ((pair >> 4) ^ 8) - 8;
    outside |= low == -8 || high == -8;
    levels[2 * j] = static_cast<std::int8_t>(low);
    levels[2 * j + 1] = static_cast<std::int8_t>(high);
  }
  if (outside) return refuse(RefusalCode::malformed, "level -8 of an int4 value");
  if (out.size() % 2 != 0 && levels[out.size()] != 0) return bad_padding();
  for (std::size_t j = 0; j < out.size(); ++j) out[j] = static_cast<float>(levels[j]) * scale;
  return {};
}

Admitted<void> decode_ternary(ByteView codes, float scale, std::span<float> out) {
  std::array<std::int8_t, (kTernaryBlock / kTritsInByte + 1) * kTritsInByte + 8> levels;
  for (std::size_t j = 0; j < codes.size(); ++j) {
    const auto byte = std::to_integer<unsigned>(codes[j]);
    if (byte >= kTritBytes) return refuse(RefusalCode::malformed, fmt::format("byte {} of ternary values", byte));
    std::memcpy(levels.data() + kTritsInByte * j, kTrits[byte].data(), 8);
  }
  for (std::size_t j = out.size(); j < codes.size() * kTritsInByte; ++j) {
    if (levels[j] != 0) return bad_padding();
  }
  for (std::size_t j = 0; j < out.size(); ++j) out[j] = static_cast<float>(levels[j]) * scale;
  return {};
}

Admitted<void> decode_sign(ByteView codes, float scale, std::span<float> out) {
  const auto magnitude = std::bit_cast<std::uint32_t>(scale);
  std::array<std::uint32_t, kSignBlock> bits;
  for (std::size_t j = 0; j < codes.size(); ++j) {
    for (unsigned k = 0; k < 8; ++k) bits[8 * j + k] = std::to_integer<std::uint32_t>(codes[j]) >> k & 1U;
  }
  for (std::size_t j = out.size(); j < codes.size() * 8; ++j) {
    if (bits[j] != 0) return bad_padding();
  }
  for (std::size_t j = 0; j < out.size(); ++j) out[j] = std::bit_cast<float>(bits[j] << 31 | magnitude);
  return {};
}

Admitted<void> decode_blocks(ValueFormat format, ExponentRange range, DecodeBlock decode, ByteView bytes,
                             std::span<float> out) {
  const std::size_t entries = block_entries(format);
  for (std::size_t begin = 0; begin < out.size(); begin += entries) {
    const auto block = out.subspan(begin, std::min(entries, out.size() - begin));
    const ByteView coded = bytes.first(value_bytes(format, block.size()));
    bytes = bytes.subspan(coded.size());
    if (format == ValueFormat::sign && static_cast<std::int8_t>(coded[0]) == kNoScale) {
      if (std::ranges::any_of(coded.subspan(1), [](std::byte byte) { return byte != std::byte{0}; })) {
        return refuse(RefusalCode::malformed, "signs in a block without a scale");
      }
      std::ranges::fill(block, 0.0F);
      continue;
    }
    const auto scale = get_scale(range, coded[0]);
    if (!scale) return std::unexpected(scale.error());
    if (auto read = decode(coded.subspan(1), *scale, block); !read) return read;
  }
  return {};
}

template <class Decode>
void decode_16_bits(ByteView bytes, std::span<float> out, Decode decode) {
  for (std::size_t j = 0; j < out.size(); ++j) {
    std::uint16_t code = 0;
    std::memcpy(&code, bytes.data() + 2 * j, 2);
    out[j] = decode(code);
  }
}

}  // namespace

Admitted<ValueStream> ValueStream::open(ValueFormat format, float clip, std::size_t count, ByteView in) {
  const std::uint64_t bytes = value_bytes(format, count);
  if (in.size() < bytes) return refuse(RefusalCode::malformed, "the values are cut off");
  ValueStream stream(format, clip, in.first(bytes));
  if (format == ValueFormat::f16) {
    const auto scale = get_scale(kF16Exponents, in[0]);
    if (!scale) return std::unexpected(scale.error());
    stream.scale_ = *scale;
    stream.in_ = stream.in_.subspan(1);
  }
  return stream;
}

Admitted<void> ValueStream::decode(std::span<float> out) {
  const std::size_t bytes = format_ == ValueFormat::f16 ? 2 * out.size() : value_bytes(format_, out.size());
  const ByteView coded = in_.first(bytes);
  in_ = in_.subspan(bytes);
  switch (format_) {
    case ValueFormat::f32: std::memcpy(out.data(), coded.data(), coded.size()); return {};
    case ValueFormat::f16:
      decode_16_bits(coded, out, [scale = scale_](std::uint16_t code) { return from_half(code) * scale; });
      return {};
    case ValueFormat::bf16: decode_16_bits(coded, out, from_bf16); return {};
    case ValueFormat::int8: return decode_blocks(format_, kInt8Exponents, decode_int8, coded, out);
    case ValueFormat::int4: return decode_blocks(format_, kInt4Exponents, decode_int4, coded, out);
    case ValueFormat::ternary: return decode_blocks(format_, kTernaryExponents, decode_ternary, coded, out);
    case ValueFormat::sign: return decode_blocks(format_, kTernaryExponents, decode_sign, coded, out);
  }
  return refuse(RefusalCode::malformed, "unknown value format");
}

Admitted<void> ValueStream::next(std::span<float> out) {
  if (auto read = decode(out); !read) return read;
  const auto most = std::bit_cast<std::int32_t>(clip_);  // of the same sign, floats are in the order of their bits
  bool beyond = false;
  for (const float value : out) beyond |= (std::bit_cast<std::int32_t>(value) & 0x7fffffff) > most;
  if (!beyond) return {};
  const auto value = *std::ranges::find_if(out, [this](float x) { return !(std::fabs(x) <= clip_); });
  return refuse(std::isfinite(value) ? RefusalCode::over_bound : RefusalCode::non_finite,
                fmt::format("value {}, the clip is {}", value, clip_));
}

}  // namespace gleaner::codec
