#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "compression/codec/index_codec.hpp"
#include "tests/compression/vectors.hpp"

namespace gleaner {
namespace {

using codec::IndexPlan;

constexpr IndexFormat kAll[] = {IndexFormat::list, IndexFormat::dense, IndexFormat::bitmap, IndexFormat::golomb_rice};

Bytes encode(const IndexPlan& plan, const std::vector<std::uint32_t>& indices, std::uint32_t size) {
  Bytes bytes;
  codec::put_indices(plan, indices, size, bytes);
  return bytes;
}

void expect_round_trip(const std::vector<std::uint32_t>& indices, std::uint32_t size) {
  const IndexPlan cheapest = codec::cheapest_indices(indices, size);
  for (const IndexFormat format : kAll) {
    const auto plan = codec::plan_indices(format, indices, size);
    ASSERT_EQ(plan.has_value(), format != IndexFormat::dense || indices.size() == size);
    if (!plan) continue;
    const Bytes bytes = encode(*plan, indices, size);
    ASSERT_EQ(bytes.size(), plan->bytes) << to_string(format);
    ASSERT_LE(cheapest.bytes, plan->bytes) << to_string(format);
    std::vector<std::uint32_t> decoded(indices.size());
    ByteReader in(bytes);
    const auto read = codec::get_indices(format, size, in, decoded);
    ASSERT_TRUE(read) << to_string(format) << ": " << read.error().detail();
    ASSERT_TRUE(in.at_end()) << to_string(format);
    ASSERT_EQ(decoded, indices) << to_string(format);
  }
}

TEST(IndexCodec, EveryFormatRoundTripsAndTheCheapestIsCheapest) {
  EXPECT_TRUE(rc::check("round trip", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>(), Purpose::test);
    const std::uint32_t size = 1 + random.below(*rc::gen::element(10U, 100U, 3'000U, 60'000U));
    const std::uint32_t count = 1 + random.below(*rc::gen::element(1U, std::min(size, 30U), size));
    expect_round_trip(testing::random_indices(random, size, count), size);
    RC_ASSERT(!::testing::Test::HasFailure());
  }));
}

TEST(IndexCodec, ExtremeGapsRoundTrip) {
  const std::uint32_t size = 0xffffffffU;
  for (const std::vector<std::uint32_t>& indices : {std::vector<std::uint32_t>{size - 1},
                                                    {0, size - 1},
                                                    {0, 1, 2, 3, size - 3, size - 1},
                                                    {1U << 31},
                                                    {5, 1U << 31}}) {
    for (const IndexFormat format : {IndexFormat::list, IndexFormat::golomb_rice}) {
      const auto plan = codec::plan_indices(format, indices, size);
      const Bytes bytes = encode(*plan, indices, size);
      ASSERT_EQ(bytes.size(), plan->bytes);
      std::vector<std::uint32_t> decoded(indices.size());
      ByteReader in(bytes);
      ASSERT_TRUE(codec::get_indices(format, size, in, decoded));
      EXPECT_EQ(decoded, indices);
    }
  }
}

// Every Rice parameter decodes, and the planned one is the best of them.
TEST(IndexCodec, TheRiceParameterIsTheBestOfAll) {
  EXPECT_TRUE(rc::check("best parameter", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>(), Purpose::test);
    const std::uint32_t size = 1 + random.below(20'000);
    const auto indices = testing::random_indices(random, size, 1 + random.below(std::min(size, 500U)));
    const auto plan = codec::plan_indices(IndexFormat::golomb_rice, indices, size);
    for (std::uint8_t b = 0; b <= 31; ++b) {
      std::uint64_t bits = 0;
      std::uint32_t next = 0;
      for (const std::uint32_t index : indices) {
        bits += ((index - next) >> b) + 1 + b;
        next = index + 1;
      }
      const IndexPlan other = {.format = IndexFormat::golomb_rice, .rice_bits = b, .bytes = 1 + (bits + 7) / 8};
      RC_ASSERT(plan->bytes <= other.bytes);
      const Bytes bytes = encode(other, indices, size);
      std::vector<std::uint32_t> decoded(indices.size());
      ByteReader in(bytes);
      RC_ASSERT(codec::get_indices(IndexFormat::golomb_rice, size, in, decoded).has_value());
      RC_ASSERT(decoded == indices);
      RC_ASSERT(in.at_end());
    }
  }));
}

// log2 C(d, k) / k at d = 1e6, by lgamma to four digits.
TEST(IndexCodec, FloorIsTheEntropyOfARandomSet) {
  EXPECT_NEAR(codec::index_floor_bits(1'000'000, 1'000) / 1'000, 11.4014, 1e-4);
  EXPECT_NEAR(codec::index_floor_bits(1'000'000, 10'000) / 10'000, 8.0785, 1e-4);
  EXPECT_NEAR(codec::index_floor_bits(1'000'000, 100'000) / 100'000, 4.6899, 1e-4);
  EXPECT_NEAR(codec::index_floor_bits(10, 10), 0.0, 1e-9);
}

TEST(IndexCodec, GolombRiceIsWithinOneAndAHalfPercentOfTheFloor) {
  const std::uint32_t size = 1'000'000;
  for (const std::uint32_t count : {1'000U, 10'000U, 100'000U}) {
    Random random(11, Purpose::test, count);
    const auto indices = testing::random_indices(random, size, count);
    const IndexPlan plan = codec::cheapest_indices(indices, size);
    EXPECT_EQ(plan.format, IndexFormat::golomb_rice);
    const double bits = 8.0 * static_cast<double>(plan.bytes);
    const double floor_bits = codec::index_floor_bits(size, count);
    EXPECT_LT(bits, 1.015 * floor_bits) << count;
    EXPECT_GT(bits, floor_bits * 0.995) << count;
    ::testing::Test::RecordProperty("bits_per_index_" + std::to_string(count), std::to_string(bits / count));
  }
}

TEST(IndexCodec, DensityDecidesTheFormat) {
  Random random(12, Purpose::test);
  const auto format_at = [&](std::uint32_t size, std::uint32_t count) {
    return codec::cheapest_indices(testing::random_indices(random, size, count), size).format;
  };
  EXPECT_EQ(format_at(1'000, 1'000), IndexFormat::dense);
  EXPECT_EQ(format_at(10'000, 5'000), IndexFormat::bitmap);
  EXPECT_EQ(format_at(10'000, 100), IndexFormat::golomb_rice);
  EXPECT_EQ(codec::cheapest_indices(std::vector<std::uint32_t>{4'000'000'000U}, 4'294'967'295U).format,
            IndexFormat::list);
}

}  // namespace
}  // namespace gleaner
