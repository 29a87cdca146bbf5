#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>

#include "compression/codec/value_codec.hpp"
#include "tests/compression/vectors.hpp"

namespace gleaner {
namespace {

constexpr ValueFormat kAll[] = {ValueFormat::f32, ValueFormat::f16, ValueFormat::int8};

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

struct Coded {
  Bytes bytes;
  std::vector<float> sent;
};

Coded encode(ValueFormat format, const std::vector<float>& values, float clip) {
  Coded coded{.sent = std::vector<float>(values.size())};
  codec::put_values(format, values, clip, coded.bytes, coded.sent);
  return coded;
}

// The promise of payload.hpp, checked in double, where differences of such x and q are exact.
void check_exact(float x, float q) {
  const float rest = x - q;
  RC_ASSERT(static_cast<double>(rest) == static_cast<double>(x) - static_cast<double>(q));
  RC_ASSERT(rest + q == x);
}

TEST(ValueCodec, DecoderSeesWhatWasSentAndTheRestIsExact) {
  EXPECT_TRUE(rc::check("exact", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>(), Purpose::test);
    const float clip = std::ldexp(1.0F, static_cast<int>(random.below(120)) - 60);
    const float bound = *rc::gen::element(clip, clip, 0x1p-20F * clip, 0x1p23F * clip);
    std::vector<float> values(1 + random.below(400));
    for (float& value : values) value = testing::nasty_value(random, bound);
    for (const ValueFormat format : kAll) {
      const Coded coded = encode(format, values, clip);
      RC_ASSERT(coded.bytes.size() == codec::value_bytes(format, values.size()));
      std::vector<float> decoded(values.size());
      ByteReader in(coded.bytes);
      RC_ASSERT(codec::get_values(format, clip, in, decoded).has_value());
      RC_ASSERT(in.at_end());
      for (std::size_t j = 0; j < values.size(); ++j) {
        RC_ASSERT(bits(decoded[j]) == bits(coded.sent[j]));
        RC_ASSERT(std::fabs(coded.sent[j]) <= clip);
        check_exact(values[j], coded.sent[j]);
      }
    }
  }));
}

TEST(ValueCodec, F32IsExactWithinTheClip) {
  const std::vector<float> values = {1.5F, -0.0F, 1e-45F, -3e-39F, 2.0F, -2.0F, 1.9999999F};
  const Coded coded = encode(ValueFormat::f32, values, 2.0F);
  for (std::size_t j = 0; j < values.size(); ++j) EXPECT_EQ(bits(coded.sent[j]), bits(values[j]));
}

TEST(ValueCodec, LargerValuesAreClippedInEveryFormat) {
  for (const ValueFormat format : kAll) {
    const Coded coded = encode(format, {5.0F, -1e6F, 0.25F, 4.0F}, 4.0F);
    EXPECT_EQ(coded.sent, (std::vector<float>{4.0F, -4.0F, 0.25F, 4.0F})) << to_string(format);
  }
}

TEST(ValueCodec, F16KeepsElevenBitsOfWhateverScale) {
  Random random(3, Purpose::test);
  for (const float scale : {1e-30F, 1e-6F, 1.0F, 1e6F, 1e30F}) {
    std::vector<float> values(500);
    for (float& value : values) value = scale * static_cast<float>(1.0 + random.uniform());
    const Coded coded = encode(ValueFormat::f16, values, 0x1p120F);
    for (std::size_t j = 0; j < values.size(); ++j) {
      EXPECT_LE(std::fabs(values[j] - coded.sent[j]), std::ldexp(values[j], -11)) << values[j];
    }
  }
}

// Beside the largest value, 2^-24 of the largest half is the step: halves below 2^-14 of the scale are subnormal.
TEST(ValueCodec, F16SubnormalsRoundToTheStep) {
  // The largest value is 2^14 at the scale 1, so that the halves are the values.
  const std::vector<float> values = {0x1p14F, 0x1p-24F, 0x1.8p-24F, 0x1p-25F, 0x1.8p-25F, -0x1.00cp-15F, 0x1p-30F};
  const std::vector<float> expected = {0x1p14F, 0x1p-24F, 0x1p-23F, 0.0F, 0x1p-24F, -0x1.00cp-15F, 0.0F};
  const Coded coded = encode(ValueFormat::f16, values, 0x1p20F);
  EXPECT_EQ(coded.bytes[0], std::byte{0});
  for (std::size_t j = 0; j < values.size(); ++j) {
    const float step = 0x1p-24F;
    const double in_steps = static_cast<double>(values[j]) / step;
    EXPECT_EQ(coded.sent[j],
              std::fabs(values[j]) < 0x1p-14F ? static_cast<float>(std::nearbyint(in_steps)) * step : values[j]);
    if (j != 5) {
      EXPECT_EQ(coded.sent[j], expected[j]) << j;
    }
  }
}

TEST(ValueCodec, Int8IsWithinHalfAStepOfTheBlocksLargest) {
  Random random(4, Purpose::test);
  std::vector<float> values(1'000);
  for (float& value : values) value = static_cast<float>(random.normal());
  const Coded coded = encode(ValueFormat::int8, values, 0x1p10F);
  for (std::size_t begin = 0; begin < values.size(); begin += codec::kInt8Block) {
    const std::size_t end = std::min(values.size(), begin + codec::kInt8Block);
    float largest = 0.0F;
    for (std::size_t j = begin; j < end; ++j) largest = std::max(largest, std::fabs(values[j]));
    for (std::size_t j = begin; j < end; ++j) {
      EXPECT_LE(std::fabs(values[j] - coded.sent[j]), largest / 127.0F);  // half of a step of at most largest / 63.5
    }
  }
}

TEST(ValueCodec, Int8RoundsUpToTheNextScaleWhenALevelWouldBe128) {
  const Coded coded = encode(ValueFormat::int8, {127.75F, 127.0F, -3.0F, 1.0F}, 0x1p10F);
  EXPECT_EQ(coded.sent, (std::vector<float>{128.0F, 128.0F, -4.0F, 0.0F}));
}

TEST(ValueCodec, ZerosAndDenormalsOnly) {
  for (const ValueFormat format : kAll) {
    const std::vector<float> values = {0.0F, 1e-45F, -1e-40F};
    const Coded coded = encode(format, values, 1.0F);
    for (std::size_t j = 0; j < values.size(); ++j) EXPECT_EQ((values[j] - coded.sent[j]) + coded.sent[j], values[j]);
  }
}

RefusalCode code_of(ValueFormat format, const Bytes& bytes, std::size_t count, float clip = 4.0F) {
  std::vector<float> out(count);
  ByteReader in(bytes);
  const auto read = codec::get_values(format, clip, in, out);
  return read ? RefusalCode::none : read.error().code();
}

Bytes raw(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(ValueCodec, FaultsAreNamed) {
  const auto f32 = [](float x) {
    Bytes bytes;
    ByteWriter(bytes).put(x);
    return bytes;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(code_of(ValueFormat::f32, f32(4.0F), 1), RefusalCode::none);
  EXPECT_EQ(code_of(ValueFormat::f32, f32(std::nextafter(4.0F, 5.0F)), 1), RefusalCode::over_bound);
  EXPECT_EQ(code_of(ValueFormat::f32, f32(-infinity), 1), RefusalCode::non_finite);
  EXPECT_EQ(code_of(ValueFormat::f32, f32(std::numeric_limits<float>::quiet_NaN()), 1), RefusalCode::non_finite);
  EXPECT_EQ(code_of(ValueFormat::f32, f32(1.0F), 2), RefusalCode::malformed);

  EXPECT_EQ(code_of(ValueFormat::f16, raw({0, 0x00, 0x3c}), 1), RefusalCode::none);          // 1
  EXPECT_EQ(code_of(ValueFormat::f16, raw({0, 0x00, 0x7c}), 1), RefusalCode::non_finite);    // infinity
  EXPECT_EQ(code_of(ValueFormat::f16, raw({0, 0x01, 0xfc}), 1), RefusalCode::non_finite);    // NaN
  EXPECT_EQ(code_of(ValueFormat::f16, raw({113, 0xff, 0x7b}), 1), RefusalCode::non_finite);  // 65504 * 2^113
  EXPECT_EQ(code_of(ValueFormat::f16, raw({3, 0x00, 0x3c}), 1), RefusalCode::over_bound);    // 8
  EXPECT_EQ(code_of(ValueFormat::f16, raw({114, 0x00, 0x00}), 1), RefusalCode::malformed);
  EXPECT_EQ(code_of(ValueFormat::f16, raw({-113, 0x00, 0x00}), 1), RefusalCode::malformed);
  EXPECT_EQ(code_of(ValueFormat::f16, raw({0, 0x00}), 1), RefusalCode::malformed);

  EXPECT_EQ(code_of(ValueFormat::int8, raw({-5, 127}), 1), RefusalCode::none);
  EXPECT_EQ(code_of(ValueFormat::int8, raw({-4, 127}), 1), RefusalCode::over_bound);
  EXPECT_EQ(code_of(ValueFormat::int8, raw({-5, -128}), 1), RefusalCode::malformed);
  EXPECT_EQ(code_of(ValueFormat::int8, raw({122, 0}), 1), RefusalCode::malformed);
  EXPECT_EQ(code_of(ValueFormat::int8, raw({-127, 0}), 1), RefusalCode::malformed);
  EXPECT_EQ(code_of(ValueFormat::int8, raw({-5}), 1), RefusalCode::malformed);
}

}  // namespace
}  // namespace gleaner
