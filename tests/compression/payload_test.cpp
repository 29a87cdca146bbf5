// The payload as a whole: round trips, sizes, and hostile bytes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "compression/codec/index_codec.hpp"
#include "compression/payload.hpp"
#include "tests/compression/corruption.hpp"
#include "tests/compression/vectors.hpp"

namespace gleaner {
namespace {

constexpr float kClip = 0x1p10F;

std::uint32_t count_of(const SparseVector& vector) { return static_cast<std::uint32_t>(vector.indices.size()); }

TEST(Payload, RoundTripsForEveryValueFormatAndGrouping) {
  EXPECT_TRUE(rc::check("round trip", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>(), Purpose::test);
    const Grouping grouping = testing::random_grouping(random, 3'000);
    const SparseVector vector = testing::random_vector(random, grouping);
    for (const ValueFormat format : kValueFormats) {
      const auto preference = *rc::gen::element(IndexPreference::bytes, IndexPreference::speed);
      const EncodedPayload payload = encode_payload(vector, grouping, format, kClip, preference);
      RC_ASSERT(payload.split.value_bytes + payload.split.index_bytes + payload.split.framing_bytes ==
                payload.bytes.size());
      RC_ASSERT(payload.bytes.size() <= payload_bytes_max(grouping, count_of(vector)));
      PayloadBytes split;
      const auto decoded =
          decode_payload(payload.bytes, grouping, {.entries_max = count_of(vector), .clip = kClip}, &split);
      RC_ASSERT(decoded.has_value());
      RC_ASSERT(split.value_bytes == payload.split.value_bytes);
      RC_ASSERT(split.index_bytes == payload.split.index_bytes);
      RC_ASSERT(split.framing_bytes == payload.split.framing_bytes);
      RC_ASSERT(decoded->dimension == vector.dimension);
      RC_ASSERT(decoded->indices == vector.indices);
      RC_ASSERT(decoded->values == payload.sent);
      RC_ASSERT(decoded->indices.capacity() <= count_of(vector));
    }
  }));
}

TEST(Payload, TheIndexFormatOfEveryGroupIsTheCheapest) {
  EXPECT_TRUE(rc::check("cheapest", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>(), Purpose::test);
    const std::uint32_t size = 1 + random.below(5'000);
    const Grouping grouping{{size}};
    const SparseVector vector = testing::random_vector(random, grouping);
    if (vector.indices.empty()) return;
    const auto payload = encode_payload(vector, grouping, ValueFormat::int8, kClip);
    for (const IndexFormat format : {IndexFormat::list, IndexFormat::dense, IndexFormat::bitmap,
                                     IndexFormat::golomb_rice, IndexFormat::elias_fano, IndexFormat::blocks}) {
      const auto forced = codec::plan_indices(format, vector.indices, size);
      if (forced) RC_ASSERT(payload.split.index_bytes <= forced->bytes);
    }
  }));
}

TEST(Payload, OneGroupCostsThreeBytesOfFraming) {
  Random random(1, Purpose::test);
  SparseVector vector{.dimension = 100'000, .indices = testing::random_indices(random, 100'000, 300)};
  vector.values.assign(300, 0.5F);
  const auto payload = encode_payload(vector, {{100'000}}, ValueFormat::int8, 1.0F);
  EXPECT_EQ(payload.split.framing_bytes, 3U);
  EXPECT_EQ(payload.split.value_bytes, 303U);
  EXPECT_NEAR(payload.split.index_floor_bits / 300, 9.82, 0.05);
}

TEST(Payload, NoEntriesCostOneByteAGroup) {
  const Grouping grouping{{10, 0, 5}};
  const SparseVector nothing{.dimension = 15};
  const auto payload = encode_payload(nothing, grouping, ValueFormat::f32, 1.0F);
  EXPECT_EQ(payload.bytes, Bytes(3));
  EXPECT_EQ(payload.split.framing_bytes, 3U);
  const auto decoded = decode_payload(payload.bytes, grouping, {.entries_max = 0, .clip = 1.0F});
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->dimension, 15U);
  EXPECT_TRUE(decoded->indices.empty());
}

TEST(Payload, NoGroupsAreNoBytes) {
  const auto payload = encode_payload({}, {}, ValueFormat::f32, 1.0F);
  EXPECT_TRUE(payload.bytes.empty());
  EXPECT_TRUE(decode_payload({}, {}, {.entries_max = 0, .clip = 1.0F}));
}

// What a decoder lets through must be safe to fold, whatever the bytes.
void expect_valid(const SparseVector& vector, const Grouping& grouping, const PayloadLimits& limits) {
  const auto dimension = std::accumulate(grouping.sizes.begin(), grouping.sizes.end(), std::uint32_t{0});
  RC_ASSERT(vector.dimension == dimension);
  RC_ASSERT(vector.indices.size() == vector.values.size());
  RC_ASSERT(vector.indices.size() <= limits.entries_max);
  for (std::size_t j = 0; j < vector.indices.size(); ++j) {
    RC_ASSERT(vector.indices[j] < dimension);
    if (j > 0) RC_ASSERT(vector.indices[j] > vector.indices[j - 1]);
    RC_ASSERT(std::fabs(vector.values[j]) <= limits.clip);
  }
}

TEST(Payload, CorruptionNeverYieldsAnInvalidVector) {
  EXPECT_TRUE(rc::check("corruption", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>(), Purpose::test);
    const Grouping grouping = testing::random_grouping(random, 400);
    const SparseVector vector = testing::random_vector(random, grouping);
    const ValueFormat format = kValueFormats[random.below(kValueFormats.size())];
    const Bytes good = encode_payload(vector, grouping, format, 4.0F).bytes;
    const PayloadLimits limits = {.entries_max = count_of(vector) + random.below(3), .clip = 4.0F};
    for (int trial = 0; trial < 40; ++trial) {
      const Bytes bad = testing::corrupted(random, good);
      const auto decoded = decode_payload(bad, grouping, limits);
      if (decoded) expect_valid(*decoded, grouping, limits);
    }
  }));
}

TEST(Payload, EveryTruncationIsRefused) {
  Random random(9, Purpose::test);
  for (const ValueFormat format : kValueFormats) {
    const Grouping grouping{{300, 40, 1'000}};
    SparseVector vector = testing::random_vector(random, grouping);
    vector.indices = testing::random_indices(random, 1'340, 250);
    vector.values.assign(250, 1.0F);
    const Bytes bytes = encode_payload(vector, grouping, format, 4.0F).bytes;
    const PayloadLimits limits = {.entries_max = 250, .clip = 4.0F};
    ASSERT_TRUE(decode_payload(bytes, grouping, limits));
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode_payload(ByteView(bytes).first(size), grouping, limits)) << size;
    }
  }
}

TEST(Payload, UnknownValueFormatListsTheCandidates) {
  EXPECT_EQ(parse_value_format("f16").value(), ValueFormat::f16);
  const auto format = parse_value_format("fp16");
  ASSERT_FALSE(format);
  EXPECT_THAT(format.error().message(), ::testing::HasSubstr("f32, f16, int8, bf16, int4, ternary and sign"));
}

}  // namespace
}  // namespace gleaner
