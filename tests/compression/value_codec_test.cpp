#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>

#include "compression/codec/value_codec.hpp"
#include "compression/codec/value_scales.hpp"
#include "tests/compression/vectors.hpp"

namespace gleaner {
namespace {

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
    for (const ValueFormat format : kValueFormats) {
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
  for (const ValueFormat format : {ValueFormat::f32, ValueFormat::f16, ValueFormat::int8, ValueFormat::bf16}) {
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
  for (const ValueFormat format : kValueFormats) {
    const std::vector<float> values = {0.0F, 1e-45F, -1e-40F};
    const Coded coded = encode(format, values, 1.0F);
    for (std::size_t j = 0; j < values.size(); ++j) EXPECT_EQ((values[j] - coded.sent[j]) + coded.sent[j], values[j]);
  }
}

std::vector<float> sent_of(ValueFormat format, const std::vector<float>& values, float clip = 0x1p10F) {
  return encode(format, values, clip).sent;
}

TEST(ValueCodec, Bf16KeepsEightBitsAndRoundsToEven) {
  EXPECT_EQ(sent_of(ValueFormat::bf16, {1.0F, 0x1.01p0F, 0x1.03p0F, -0x1.010002p0F, 0x1.fffp9F, 0x1p-140F}),
            (std::vector<float>{1.0F, 1.0F, 0x1.04p0F, -0x1.02p0F, 0x1p10F, 0.0F}));
}

TEST(ValueCodec, Int4RoundsToSevenLevelsOfEitherSign) {
  EXPECT_EQ(sent_of(ValueFormat::int4, {7.0F, -6.5F, 2.5F, 0.5F, -0.5F, 0.75F, -7.25F}),
            (std::vector<float>{7.0F, -6.0F, 2.0F, 0.0F, 0.0F, 1.0F, -7.0F}));
  // A level of 8 is not to be had: the next scale.
  EXPECT_EQ(sent_of(ValueFormat::int4, {7.5F, -3.0F, 1.0F}), (std::vector<float>{8.0F, -4.0F, 0.0F}));
  EXPECT_EQ(sent_of(ValueFormat::int4, {5.0F, -1e6F, 0.25F}, 4.0F), (std::vector<float>{4.0F, -4.0F, 0.0F}));
}

// The scales that win are checked against the squared error of every other.
TEST(ValueCodec, TernaryAndSignTakeTheBestScale) {
  EXPECT_TRUE(rc::check("best scale", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>(), Purpose::test);
    std::vector<float> values(1 + random.below(128));
    for (float& value : values) value = static_cast<float>(random.normal() * (random.below(8) == 0 ? 6.0 : 1.0));
    const auto error = [&](const std::vector<float>& sent) {
      double sum = 0.0;
      for (std::size_t j = 0; j < values.size(); ++j) sum += std::pow(double{values[j]} - double{sent[j]}, 2);
      return sum;
    };
    const auto ternary = sent_of(ValueFormat::ternary, values);
    const double chosen = error(ternary);
    double squares = 0.0;
    for (const float value : values) squares += double{value} * double{value};
    for (int exponent = -12; exponent <= 6; ++exponent) {
      const float scale = std::ldexp(1.0F, exponent);
      std::vector<float> other(values.size());
      for (std::size_t j = 0; j < values.size(); ++j) {
        other[j] = std::fabs(values[j]) <= scale / 2 ? 0.0F : std::copysign(scale, values[j]);
      }
      RC_ASSERT(chosen <= error(other) + 4e-3 * squares);  // it weighs magnitudes in steps of 1 / 2048
    }
    const auto sign = sent_of(ValueFormat::sign, values);
    RC_ASSERT(error(sign) <= squares);
    for (std::size_t j = 0; j < values.size(); ++j) {
      RC_ASSERT(std::signbit(sign[j]) == std::signbit(values[j]) && std::fabs(sign[j]) == std::fabs(sign[0]));
      RC_ASSERT(std::fabs(sign[j]) <= 2 * std::fabs(values[j]));
    }
  }));
}

// What of an update above a threshold is left behind, in energy: the figures beside which formats are chosen.
TEST(ValueCodec, CoarseFormatsKeepMostOfTheEnergyOfTheLargest) {
  Random random(5, Purpose::test);
  std::vector<float> values;
  while (values.size() < 4'000) {
    const auto x = static_cast<float>(random.normal());
    if (std::fabs(x) > 2.5758F) values.push_back(x);  // 1 % of a normal distribution
  }
  double squares = 0.0;
  for (const float x : values) squares += double{x} * double{x};
  const auto left = [&](ValueFormat format) {
    const auto sent = sent_of(format, values);
    double sum = 0.0;
    for (std::size_t j = 0; j < values.size(); ++j) sum += std::pow(double{values[j]} - double{sent[j]}, 2);
    return sum / squares;
  };
  EXPECT_LT(left(ValueFormat::bf16), 1e-5);
  EXPECT_LT(left(ValueFormat::int4), 1e-2);
  EXPECT_LT(left(ValueFormat::ternary), 0.12);
  EXPECT_LT(left(ValueFormat::sign), 0.12);
}

// Where no scale is exact for all of a block, sign sends nothing of it and leaves all of it behind.
TEST(ValueCodec, SignSendsZerosWhereNoScaleIsExact) {
  const Coded apart = encode(ValueFormat::sign, {1e6F, -1e-6F, 0.0F}, 0x1p30F);
  EXPECT_EQ(apart.bytes, (Bytes{std::byte{0x80}, std::byte{0}}));
  EXPECT_EQ(apart.sent, (std::vector<float>{0.0F, 0.0F, 0.0F}));
  EXPECT_EQ(sent_of(ValueFormat::sign, {3.0F, -1.0F, 2.0F, -2.0F}), (std::vector<float>{2.0F, -2.0F, 2.0F, -2.0F}));
  EXPECT_EQ(sent_of(ValueFormat::ternary, {3.0F, -0.25F, 2.0F, -2.0F}), (std::vector<float>{2.0F, 0.0F, 2.0F, -2.0F}));
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

TEST(ValueCodec, FaultsOfTheCoarseFormatsAreNamed) {
  EXPECT_EQ(code_of(ValueFormat::bf16, raw({0x80, 0x40}), 1), RefusalCode::none);  // 4
  EXPECT_EQ(code_of(ValueFormat::bf16, raw({0x81, 0x40}), 1), RefusalCode::over_bound);
  EXPECT_EQ(code_of(ValueFormat::bf16, raw({0x80, 0x7f}), 1), RefusalCode::non_finite);
  EXPECT_EQ(code_of(ValueFormat::bf16, raw({0x80}), 1), RefusalCode::malformed);

  EXPECT_EQ(code_of(ValueFormat::int4, raw({-1, 0x97}), 2), RefusalCode::none);  // 3.5 and -3.5
  EXPECT_EQ(code_of(ValueFormat::int4, raw({0, 0x97}), 2), RefusalCode::over_bound);
  EXPECT_EQ(code_of(ValueFormat::int4, raw({-1, 0x87}), 2), RefusalCode::malformed) << "-8";
  EXPECT_EQ(code_of(ValueFormat::int4, raw({-1, 0x17}), 1), RefusalCode::malformed) << "padding";
  EXPECT_EQ(code_of(ValueFormat::int4, raw({-1, 0x87}), 1), RefusalCode::malformed) << "padding";
  EXPECT_EQ(code_of(ValueFormat::int4, raw({126, 0}), 1), RefusalCode::malformed);
  EXPECT_EQ(code_of(ValueFormat::int4, raw({-127, 0}), 1), RefusalCode::malformed);

  EXPECT_EQ(code_of(ValueFormat::ternary, raw({2, 242}), 5), RefusalCode::none);
  EXPECT_EQ(code_of(ValueFormat::ternary, raw({3, 242}), 5), RefusalCode::over_bound);
  EXPECT_EQ(code_of(ValueFormat::ternary, raw({3, 0}), 5), RefusalCode::none) << "zeros need no scale in bounds";
  EXPECT_EQ(code_of(ValueFormat::ternary, raw({2, 243}), 5), RefusalCode::malformed);
  EXPECT_EQ(code_of(ValueFormat::ternary, raw({2, 81}), 4), RefusalCode::malformed) << "padding";
  EXPECT_EQ(code_of(ValueFormat::ternary, raw({2, 1}), 6), RefusalCode::malformed);
  EXPECT_EQ(code_of(ValueFormat::ternary, raw({127, 0}), 5), RefusalCode::malformed);

  EXPECT_EQ(code_of(ValueFormat::sign, raw({2, 0x1f}), 5), RefusalCode::none);
  EXPECT_EQ(code_of(ValueFormat::sign, raw({3, 0x1f}), 5), RefusalCode::over_bound);
  EXPECT_EQ(code_of(ValueFormat::sign, raw({2, 0x3f}), 5), RefusalCode::malformed) << "padding";
  EXPECT_EQ(code_of(ValueFormat::sign, raw({-128, 0}), 5), RefusalCode::none);
  EXPECT_EQ(code_of(ValueFormat::sign, raw({-128, 1}), 5), RefusalCode::malformed);
  EXPECT_EQ(code_of(ValueFormat::sign, raw({-127, 0}), 5), RefusalCode::malformed);
  EXPECT_EQ(code_of(ValueFormat::sign, raw({2}), 5), RefusalCode::malformed);
}

}  // namespace
}  // namespace gleaner