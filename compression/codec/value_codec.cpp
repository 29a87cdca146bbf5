#include "compression/codec/value_codec.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "common/check.hpp"
#include "compression/codec/bits.hpp"
#include "compression/codec/value_scales.hpp"
#include "compression/codec/value_stream.hpp"

namespace gleaner::codec {
namespace {

constexpr std::uint32_t kMagnitude = 0x7fffffffU;
constexpr int kPlaces = 23;  // of a float behind its first bit

// floor(log2(x)) for x > 0; -127 for denormals and zero, which are below every scale.
int floor_log2(float x) { return static_cast<int>(std::bit_cast<std::uint32_t>(x) >> 23) - 127; }

float largest_magnitude(std::span<const float> values) {
  std::int32_t largest = 0;
  for (const float value : values) {
    largest = std::max(largest, static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(value) & kMagnitude));
  }
  return std::bit_cast<float>(largest);
}

// To nearest, ties to even, for |x| <= 2^22: above 1.5 * 2^23 the last place of a float is 1.
std::int32_t round_to_integer(float x) {
  constexpr float kOnes = 0x1.8p23F;
  return std::bit_cast<std::int32_t>(x + kOnes) - std::bit_cast<std::int32_t>(kOnes);
}

// A block's values as given, and clamped.
struct Block {
  std::span<const float> values;
  std::span<float> sent;  // the clamped values first, then what the decoder sees
};

// Writes the codes of a block behind its exponent, which it returns.
using EncodeBlock = int (*)(Block block, float clip, std::byte* codes);

// Codes of 16 bits go through an array of their own: bytes may lie over anything, which would forbid vector code.
template <class Encode, class Decode>
void put_16_bits(std::span<float> sent, std::byte* to, Encode encode, Decode decode) {
  std::array<std::uint16_t, kBlockEntries> codes;
  for (std::size_t begin = 0; begin < sent.size(); begin += kBlockEntries) {
    const auto block = sent.subspan(begin, std::min(kBlockEntries, sent.size() - begin));
    for (std::size_t j = 0; j < block.size(); ++j) codes[j] = encode(block[j]);
    for (std::size_t j = 0; j < block.size(); ++j) block[j] = decode(codes[j]);
    std::memcpy(to + 2 * begin, codes.data(), 2 * block.size());
  }
}

void put_f16(Bytes& out, std::span<float> sent) {
  // The largest comes to lie in [2^14, 2^15].
  const int exponent = std::clamp(floor_log2(largest_magnitude(sent)) - 14, kF16Exponents.least, kF16Exponents.most);
  const float scale = power_of_two(exponent);
  const float inverse = power_of_two(-exponent);
  const std::size_t at = out.size();
  out.resize(at + 1 + 2 * sent.size());
  out[at] = static_cast<std::byte>(exponent);
  put_16_bits(
      sent, out.data() + at + 1, [inverse](float x) { return to_half(x * inverse); },
      [scale](std::uint16_t half) { return from_half(half) * scale; });
}

void put_bf16(Bytes& out, std::span<float> sent) {
  const std::size_t at = out.size();
  out.resize(at + 2 * sent.size());
  put_16_bits(sent, out.data() + at, to_bf16, from_bf16);
}

// The exponent with which the largest value becomes a level of at most `most`, and above half of it.
int level_exponent(float largest, int most, ExponentRange range) {
  const int below = static_cast<int>(std::bit_width(static_cast<unsigned>(most))) - 1;
  const int exponent = std::clamp(floor_log2(largest) - below, range.least, range.most);
  return largest * power_of_two(-exponent) >= static_cast<float>(most) + 0.5F ? exponent + 1 : exponent;
}

int encode_int8(Block block, float, std::byte* codes) {
  const int exponent = level_exponent(largest_magnitude(block.sent), 127, kInt8Exponents);
  const float scale = power_of_two(exponent);
  const float inverse = power_of_two(-exponent);
  for (std::size_t j = 0; j < block.sent.size(); ++j) {
    const std::int32_t level = round_to_integer(block.sent[j] * inverse);
    codes[j] = static_cast<std::byte>(level);
    block.sent[j] = static_cast<float>(level) * scale;
  }
  return exponent;
}

int encode_int4(Block block, float, std::byte* codes) {
  const int exponent = level_exponent(largest_magnitude(block.sent), 7, kInt4Exponents);
  const float scale = power_of_two(exponent);
  const float inverse = power_of_two(-exponent);
  std::array<std::uint8_t, kInt4Block> levels{};
  for (std::size_t j = 0; j < block.sent.size(); ++j) {
    const std::int32_t level = round_to_integer(block.sent[j] * inverse);
    levels[j] = static_cast<std::uint8_t>(level & 15);
    block.sent[j] = static_cast<float>(level) * scale;
  }
  for (std::size_t j = 0; j < (block.sent.size() + 1) / 2; ++j) {
    codes[j] = static_cast<std::byte>(levels[2 * j] | levels[2 * j + 1] << 4);
  }
  return exponent;
}

// Of the scales from `least` to `most`, the one that takes the most squared error out: an entry above half of s loses
// x^2 - (x - s)^2 = s (2x - s). In integers, so that the sum has one value: 2^most is 2^11, and 128 entries stay in 32
// bits.
int ternary_exponent(std::span<const float> values, int least, int most) {
  constexpr int kUnit = 11;
  std::array<std::int32_t, kTernaryBlock> magnitudes{};
  const float unit = power_of_two(std::clamp(kUnit - most, -126, 127));
  for (std::size_t j = 0; j < values.size(); ++j) {
    magnitudes[j] = std::min(1 << kUnit, static_cast<std::int32_t>(std::fabs(values[j]) * unit + 0.5F));
  }
  int best = most;
  std::int32_t best_gain = -1;
  for (int exponent = most; exponent >= least; --exponent) {
    const int log = kUnit - (most - exponent);
    const std::int32_t scale = 1 << log;
    std::int32_t gain = 0;
    for (const std::int32_t x : magnitudes) gain += 2 * x > scale ? (2 * x - scale) << log : 0;
    if (gain <= best_gain) continue;
    best_gain = gain;
    best = exponent;
  }
  return best;
}

int encode_ternary(Block block, float clip, std::byte* codes) {
  // Five powers of two below the largest value, all of the others together weigh less than it.
  constexpr int kBelow = 5;
  const int largest = floor_log2(largest_magnitude(block.sent));
  const int most = std::clamp(std::min(largest + 1, floor_log2(clip)), kTernaryExponents.least, kTernaryExponents.most);
  const int exact = floor_log2(largest_magnitude(block.values)) - kPlaces;  // what s must not be below
  const int least = std::clamp(std::max(largest - kBelow, exact), kTernaryExponents.least, most);
  const int exponent = ternary_exponent(block.sent, least, most);
  const float scale = power_of_two(exponent);
  const float half = scale * 0.5F;  // a normal number or 2^-127, which is exact too
  std::array<std::uint8_t, (kTernaryBlock / kTritsInByte + 1) * kTritsInByte> trits{};
  for (std::size_t j = 0; j < block.sent.size(); ++j) {
    const float x = block.sent[j];
    trits[j] = static_cast<std::uint8_t>(x > half ? 1 : x < -half ? 2 : 0);
    block.sent[j] = x > half ? scale : x < -half ? -scale : 0.0F;
  }
  for (std::size_t j = 0; j * kTritsInByte < block.sent.size(); ++j) {
    const std::uint8_t* t = trits.data() + j * kTritsInByte;
    codes[j] = static_cast<std::byte>(t[0] + 3 * t[1] + 9 * t[2] + 27 * t[3] + 81 * t[4]);
  }
  return exponent;
}

int sign_exponent(Block block, float clip) {
  std::uint32_t least_bits = kMagnitude;
  double sum = 0.0;
  std::size_t count = 0;
  for (const float x : block.sent) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) & kMagnitude;
    if (bits == 0) continue;
    least_bits = std::min(least_bits, bits);
    sum += std::fabs(double{x});
    ++count;
  }
  if (count == 0) return kNoScale;
  const int most =
      std::min({floor_log2(std::bit_cast<float>(least_bits)) + 1, floor_log2(clip), kTernaryExponents.most});
  const int least = std::max(floor_log2(largest_magnitude(block.values)) - kPlaces, kTernaryExponents.least);
  if (least > most) return kNoScale;
  // The squared error n s^2 - 2 s sum falls with every doubling of s as long as 3 n s < 2 sum.
  int exponent = least;
  while (exponent < most && 3.0 * static_cast<double>(count) * power_of_two(exponent) < 2.0 * sum) ++exponent;
  return exponent;
}

int encode_sign(Block block, float clip, std::byte* codes) {
  const int exponent = sign_exponent(block, clip);
  if (exponent == kNoScale) {
    std::ranges::fill(block.sent, 0.0F);
    return exponent;
  }
  const auto magnitude = std::bit_cast<std::uint32_t>(power_of_two(exponent));
  std::array<std::uint8_t, kSignBlock> signs{};
  for (std::size_t j = 0; j < block.sent.size(); ++j) {
    const std::uint32_t sign = std::bit_cast<std::uint32_t>(block.sent[j]) >> 31;
    signs[j] = static_cast<std::uint8_t>(sign);
    block.sent[j] = std::bit_cast<float>(sign << 31 | magnitude);
  }
  for (std::size_t j = 0; j < (block.sent.size() + 7) / 8; ++j) {
    unsigned byte = 0;
    for (unsigned k = 0; k < 8; ++k) byte |= unsigned{signs[8 * j + k]} << k;
    codes[j] = static_cast<std::byte>(byte);
  }
  return exponent;
}

void put_blocks(ValueFormat format, EncodeBlock encode, Block all, float clip, Bytes& out) {
  const std::size_t entries = block_entries(format);
  std::size_t at = out.size();
  out.resize(at + value_bytes(format, all.sent.size()));
  for (std::size_t begin = 0; begin < all.sent.size(); begin += entries) {
    const std::size_t n = std::min(entries, all.sent.size() - begin);
    const Block block = {all.values.subspan(begin, n), all.sent.subspan(begin, n)};
    out[at] = static_cast<std::byte>(encode(block, clip, out.data() + at + 1));
    at += value_bytes(format, n);
  }
}

}  // namespace

void put_values(ValueFormat format, std::span<const float> values, float clip, Bytes& out, std::span<float> sent) {
  GLEANER_CHECK(values.size() == sent.size());
  bool finite = true;
  for (std::size_t j = 0; j < values.size(); ++j) {
    finite &= (std::bit_cast<std::int32_t>(values[j]) & 0x7fffffff) < 0x7f800000;
    sent[j] = std::clamp(values[j], -clip, clip);
  }
  GLEANER_CHECK(finite);
  const Block all = {values, sent};
  switch (format) {
    case ValueFormat::f32: ByteWriter(out).put_array<float>(sent); break;
    case ValueFormat::f16: put_f16(out, sent); break;
    case ValueFormat::bf16: put_bf16(out, sent); break;
    case ValueFormat::int8: put_blocks(format, encode_int8, all, clip, out); break;
    case ValueFormat::int4: put_blocks(format, encode_int4, all, clip, out); break;
    case ValueFormat::ternary: put_blocks(format, encode_ternary, all, clip, out); break;
    case ValueFormat::sign: put_blocks(format, encode_sign, all, clip, out); break;
  }
}

Admitted<void> get_values(ValueFormat format, float clip, ByteReader& in, std::span<float> out) {
  ByteReader rest = in;
  auto stream = ValueStream::open(format, clip, out.size(), rest.get_bytes(rest.remaining()));
  if (!stream) return std::unexpected(stream.error());
  for (std::size_t begin = 0; begin < out.size(); begin += kBlockEntries) {
    if (auto read = stream->next(out.subspan(begin, std::min(kBlockEntries, out.size() - begin))); !read) return read;
  }
  in.get_bytes(value_bytes(format, out.size()));
  return {};
}

std::uint64_t value_bytes(ValueFormat format, std::uint64_t count) {
  const auto with_scales = [&](std::size_t block, std::uint64_t codes) { return codes + (count + block - 1) / block; };
  switch (format) {
    case ValueFormat::f32: return 4 * count;
    case ValueFormat::f16: return count == 0 ? 0 : 1 + 2 * count;
    case ValueFormat::bf16: return 2 * count;
    case ValueFormat::int8: return with_scales(kInt8Block, count);
    case ValueFormat::int4: return with_scales(kInt4Block, (count + 1) / 2);
    case ValueFormat::ternary: {
      // A block's bytes are its own.
      constexpr std::uint64_t kWhole = (kTernaryBlock + kTritsInByte - 1) / kTritsInByte;
      const std::uint64_t rest = count % kTernaryBlock;
      return with_scales(kTernaryBlock, count / kTernaryBlock * kWhole + (rest + kTritsInByte - 1) / kTritsInByte);
    }
    case ValueFormat::sign: return with_scales(kSignBlock, (count + 7) / 8);
  }
  return 0;
}

std::size_t block_entries(ValueFormat format) {
  switch (format) {
    case ValueFormat::int8: return kInt8Block;
    case ValueFormat::int4: return kInt4Block;
    case ValueFormat::ternary: return kTernaryBlock;
    case ValueFormat::sign: return kSignBlock;
    case ValueFormat::f32:
    case ValueFormat::f16:
    case ValueFormat::bf16: break;
  }
  return 0;
}

}  // namespace gleaner::codec
