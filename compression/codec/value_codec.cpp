#include "compression/codec/value_codec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "common/check.hpp"

namespace gleaner::codec {
namespace {

constexpr std::uint32_t kMagnitude = 0x7fffffffU;

// Exponents of the scales. At both ends 2^e and 2^-e are normal floats, and half or integer times 2^e is exact.
struct ExponentRange {
  int least;
  int most;
};
constexpr ExponentRange kF16Exponents = {-112, 113};
constexpr ExponentRange kInt8Exponents = {-126, 121};

float power_of_two(int exponent) { return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23); }

// floor(log2(x)) for x > 0; -127 for denormals and zero, which are below every scale.
int floor_log2(float x) { return static_cast<int>(std::bit_cast<std::uint32_t>(x) >> 23) - 127; }

float largest_magnitude(std::span<const float> values) {
  std::uint32_t largest = 0;
  for (const float value : values) largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & kMagnitude);
  return std::bit_cast<float>(largest);
}

// |x| <= 2^15: no overflow to handle.
std::uint16_t to_half(float x) {
  const std::uint32_t sign = (std::bit_cast<std::uint32_t>(x) >> 16) & 0x8000U;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) & kMagnitude;
  std::uint32_t half = 0;
  if (bits >= 0x38800000U) {  // 2^-14: normal as a half
    half = (bits - 0x38000000U + 0xfffU + ((bits >> 13) & 1U)) >> 13;
  } else {
    // Beside 0.5 a float has 2^-24 as its last place, the step of the halves below 2^-14.
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits) + 0.5F) - std::bit_cast<std::uint32_t>(0.5F);
  }
  return static_cast<std::uint16_t>(sign | half);
}

// Infinities and NaNs of the half become those of the float.
float from_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t bits = half & 0x7fffU;
  std::uint32_t magnitude = 0;
  if (bits >= 0x7c00U) {
    magnitude = 0x7f800000U | (bits & 0x3ffU) << 13;
  } else if (bits >= 0x400U) {
    magnitude = (bits << 13) + 0x38000000U;
  } else {
    magnitude = std::bit_cast<std::uint32_t>(static_cast<float>(bits) * 0x1p-24F);
  }
  return std::bit_cast<float>(sign | magnitude);
}

void put_f16(std::span<const float> values, Bytes& out, std::span<float> sent) {
  // The largest comes to lie in [2^14, 2^15].
  const int exponent = std::clamp(floor_log2(largest_magnitude(values)) - 14, kF16Exponents.least, kF16Exponents.most);
  const float scale = power_of_two(exponent);
  const float inverse = power_of_two(-exponent);
  const std::size_t at = out.size();
  out.resize(at + 1 + 2 * values.size());
  out[at] = static_cast<std::byte>(exponent);
  std::byte* to = out.data() + at + 1;
  for (std::size_t j = 0; j < values.size(); ++j, to += 2) {
    const std::uint16_t half = to_half(values[j] * inverse);
    std::memcpy(to, &half, 2);
    sent[j] = from_half(half) * scale;
  }
}

void put_int8_block(std::span<const float> values, std::byte* to, std::span<float> sent) {
  // The largest comes to lie in [64, 127].
  const float largest = largest_magnitude(values);
  int exponent = std::clamp(floor_log2(largest) - 6, kInt8Exponents.least, kInt8Exponents.most);
  if (largest * power_of_two(-exponent) >= 127.5F) ++exponent;
  const float scale = power_of_two(exponent);
  const float inverse = power_of_two(-exponent);
  *to++ = static_cast<std::byte>(exponent);
  for (std::size_t j = 0; j < values.size(); ++j) {
    const auto level = static_cast<std::int8_t>(std::lrint(values[j] * inverse));
    to[j] = static_cast<std::byte>(level);
    sent[j] = static_cast<float>(level) * scale;
  }
}

std::unexpected<Refusal> truncated() { return refuse(RefusalCode::malformed, "the values are cut off"); }

Admitted<float> get_scale(ExponentRange range, std::byte byte) {
  const int exponent = static_cast<std::int8_t>(byte);
  if (exponent < range.least || exponent > range.most) {
    return refuse(RefusalCode::malformed, fmt::format("scale 2^{}", exponent));
  }
  return power_of_two(exponent);
}

Admitted<void> get_f16(ByteReader& in, std::span<float> out) {
  const ByteView bytes = in.get_bytes(value_bytes(ValueFormat::f16, out.size()));
  if (!in.ok()) return truncated();
  const auto scale = get_scale(kF16Exponents, bytes[0]);
  if (!scale) return std::unexpected(scale.error());
  for (std::size_t j = 0; j < out.size(); ++j) {
    std::uint16_t half = 0;
    std::memcpy(&half, bytes.data() + 1 + 2 * j, 2);
    out[j] = from_half(half) * *scale;
  }
  return {};
}

Admitted<void> get_int8(ByteReader& in, std::span<float> out) {
  for (std::size_t begin = 0; begin < out.size(); begin += kInt8Block) {
    const std::size_t n = std::min(kInt8Block, out.size() - begin);
    const ByteView bytes = in.get_bytes(1 + n);
    if (!in.ok()) return truncated();
    const auto scale = get_scale(kInt8Exponents, bytes[0]);
    if (!scale) return std::unexpected(scale.error());
    for (std::size_t j = 0; j < n; ++j) {
      const auto level = static_cast<std::int8_t>(bytes[1 + j]);
      if (level == -128) return refuse(RefusalCode::malformed, "level -128 of an int8 value");
      out[begin + j] = static_cast<float>(level) * *scale;
    }
  }
  return {};
}

Admitted<void> get_f32(ByteReader& in, std::span<float> out) {
  const ByteView bytes = in.get_bytes(out.size_bytes());
  if (!in.ok()) return truncated();
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return {};
}

Admitted<void> get_raw(ValueFormat format, ByteReader& in, std::span<float> out) {
  switch (format) {
    case ValueFormat::f32: return get_f32(in, out);
    case ValueFormat::f16: return get_f16(in, out);
    case ValueFormat::int8: return get_int8(in, out);
  }
  return refuse(RefusalCode::malformed, "unknown value format");
}

}  // namespace

void put_values(ValueFormat format, std::span<const float> values, float clip, Bytes& out, std::span<float> sent) {
  GLEANER_CHECK(values.size() == sent.size());
  for (std::size_t j = 0; j < values.size(); ++j) {
    GLEANER_CHECK(std::isfinite(values[j]));
    sent[j] = std::clamp(values[j], -clip, clip);
  }
  switch (format) {
    case ValueFormat::f32: ByteWriter(out).put_array<float>(sent); break;
    case ValueFormat::f16: put_f16(sent, out, sent); break;
    case ValueFormat::int8: {
      const std::size_t at = out.size();
      out.resize(at + value_bytes(format, sent.size()));
      std::byte* to = out.data() + at;
      for (std::size_t begin = 0; begin < sent.size(); begin += kInt8Block) {
        const auto block = sent.subspan(begin, std::min(kInt8Block, sent.size() - begin));
        put_int8_block(block, to, block);
        to += 1 + block.size();
      }
      break;
    }
  }
}

Admitted<void> get_values(ValueFormat format, float clip, ByteReader& in, std::span<float> out) {
  if (auto read = get_raw(format, in, out); !read) return read;
  for (std::size_t j = 0; j < out.size(); ++j) {
    if (std::fabs(out[j]) <= clip) continue;  // false for NaN too
    const bool finite = std::isfinite(out[j]);
    return refuse(finite ? RefusalCode::over_bound : RefusalCode::non_finite,
                  fmt::format("value {} of entry {}, the clip is {}", out[j], j, clip));
  }
  return {};
}

std::uint64_t value_bytes(ValueFormat format, std::uint64_t count) {
  switch (format) {
    case ValueFormat::f32: return 4 * count;
    case ValueFormat::f16: return count == 0 ? 0 : 1 + 2 * count;
    case ValueFormat::int8: return count + (count + kInt8Block - 1) / kInt8Block;
  }
  return 0;
}

}  // namespace gleaner::codec
