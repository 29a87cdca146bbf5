#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "compression/codec/index_codec.hpp"
#include "tests/compression/vectors.hpp"

namespace gleaner {
namespace {

using codec::IndexPlan;

constexpr IndexFormat kAll[] = {IndexFormat::list,        IndexFormat::dense,      IndexFormat::bitmap,
                                IndexFormat::golomb_rice, IndexFormat::elias_fano, IndexFormat::blocks};

Bytes encode(const IndexPlan& plan, const std::vector<std::uint32_t>& indices, std::uint32_t size) {
  Bytes bytes;
  codec::put_indices(plan, indices, size, bytes);
  return bytes;
}

void expect_round_trip(const std::vector<std::uint32_t>& indices, std::uint32_t size) {
  const IndexPlan cheapest = codec::cheapest_indices(indices, size);
  for (const IndexFormat format : kAll) {
    const auto plan = codec::plan_indices(format, indices, size);
    ASSERT_EQ(plan.has_value(), format != IndexFormat::dense || indices.size() == size) << to_string(format);
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
    for (const IndexFormat format :
         {IndexFormat::list, IndexFormat::golomb_rice, IndexFormat::elias_fano, IndexFormat::blocks}) {
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
      const IndexPlan other = {.format = IndexFormat::golomb_rice, .low_bits = b, .bytes = 1 + (bits + 7) / 8};
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

// As the planner must find them: by writing out every shift and parameter.
TEST(IndexCodec, EliasFanoAndBlocksHaveTheBestParameters) {
  EXPECT_TRUE(rc::check("best parameters", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>(), Purpose::test);
    const std::uint32_t size = 1 + random.below(*rc::gen::element(50U, 20'000U));
    const auto indices = testing::clustered_indices(random, size);
    const auto elias_fano = codec::plan_indices(IndexFormat::elias_fano, indices, size);
    const auto blocks = codec::plan_indices(IndexFormat::blocks, indices, size);
    for (std::uint8_t b = 0; b <= 31; ++b) {
      const std::uint64_t bits = std::uint64_t{indices.size()} * (1U + b) + (indices.back() >> b);
      RC_ASSERT(elias_fano->bytes <= 1 + (bits + 7) / 8);
    }
    for (unsigned shift = 3; shift <= 16; ++shift) {
      std::vector<std::uint32_t> numbers;
      for (const std::uint32_t index : indices) {
        if (numbers.empty() || numbers.back() != index >> shift) numbers.push_back(index >> shift);
      }
      const std::uint64_t bitmaps = numbers.size() << (shift - 3);
      const std::uint64_t coded = codec::plan_indices(IndexFormat::golomb_rice, numbers, size)->bytes;
      RC_ASSERT(blocks->bytes <= 1 + (numbers.size() < 128 ? 1U : 2U) + bitmaps + coded);
    }
    const codec::IndexPlan plans[] = {*elias_fano, *blocks};
    for (const codec::IndexPlan& plan : plans) {
      const Bytes bytes = encode(plan, indices, size);
      RC_ASSERT(bytes.size() == plan.bytes);
      std::vector<std::uint32_t> decoded(indices.size());
      ByteReader in(bytes);
      RC_ASSERT(codec::get_indices(plan.format, size, in, decoded).has_value());
      RC_ASSERT(decoded == indices && in.at_end());
    }
  }));
}

// Runs of entries, as a compressor makes them that sends blocks.
TEST(IndexCodec, BlocksWinOnClusteredSets) {
  std::vector<std::uint32_t> runs, halves;
  for (std::uint32_t block = 0; block < 100; ++block) {
    for (std::uint32_t j = 0; j < 64; ++j) {
      runs.push_back(block * block * 64 + j);
      if (j % 2 == 0 || j % 7 == 0) halves.push_back(block * block * 64 + j);
    }
  }
  const auto full = codec::cheapest_indices(runs, 1'000'000);
  EXPECT_EQ(full.format, IndexFormat::blocks);
  EXPECT_TRUE(full.full);
  EXPECT_EQ(full.shift, 6);
  EXPECT_LT(8 * full.bytes, runs.size() / 4);
  const auto partial = codec::cheapest_indices(halves, 1'000'000);
  EXPECT_EQ(partial.format, IndexFormat::blocks);
  EXPECT_FALSE(partial.full);
  EXPECT_LT(partial.bytes, codec::plan_indices(IndexFormat::golomb_rice, halves, 1'000'000)->bytes);
}

TEST(IndexCodec, ThePreferenceForSpeedChoosesAmongTheFast) {
  Random random(13, Purpose::test);
  const auto indices = testing::random_indices(random, 1'000'000, 10'000);
  const IndexPlan plan = codec::cheapest_indices(indices, 1'000'000, IndexPreference::speed);
  EXPECT_EQ(plan.format, IndexFormat::elias_fano);
  EXPECT_LT(8.0 * static_cast<double>(plan.bytes), 1.07 * codec::index_floor_bits(1'000'000, 10'000));
  const auto many = testing::random_indices(random, 10'000, 5'000);
  EXPECT_EQ(codec::cheapest_indices(many, 10'000, IndexPreference::speed).format, IndexFormat::bitmap);
}

// log2 C(d, k) / k at d = 1e6, by lgamma to four digits.
TEST(IndexCodec, FloorIsTheEntropyOfARandomSet) {
  EXPECT_NEAR(codec::index_floor_bits(1'000'000, 1'000) / 1'000, 11.4014, 1e-4);
  EXPECT_NEAR(codec::index_floor_bits(1'000'000, 10'000) / 10'000, 8.0785, 1e-4);
  EXPECT_NEAR(codec::index_floor_bits(1'000'000, 100'000) / 100'000, 4.6899, 1e-4);
  EXPECT_NEAR(codec::index_floor_bits(10, 10), 0.0, 1e-9);
}

// Coded bytes over log2 C(d, k) on uniformly random sets of a million coordinates. docs/payload.md has the figures that
// this prints.
TEST(IndexCodec, GolombRiceStandsLittleAboveTheFloor) {
  constexpr std::uint32_t kSize = 1'000'000;
  constexpr std::uint64_t kSeeds = 5;
  struct Row {
    std::uint32_t count;
    double above_max;  // share of the floor, over all seeds
  };
  for (const Row row : {Row{1'000, 0.013}, Row{2'000, 0.012}, Row{5'000, 0.005}, Row{10'000, 0.005}, Row{20'000, 0.006},
                        Row{50'000, 0.012}, Row{100'000, 0.015}, Row{200'000, 0.025}}) {
    const double floor_bits = codec::index_floor_bits(kSize, row.count);
    double least = 1.0;
    double most = -1.0;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      Random random(seed, Purpose::test, row.count);
      const auto indices = testing::random_indices(random, kSize, row.count);
      const IndexPlan plan = codec::cheapest_indices(indices, kSize);
      ASSERT_EQ(plan.format, IndexFormat::golomb_rice);
      const Bytes bytes = encode(plan, indices, kSize);
      const double above = 8.0 * static_cast<double>(bytes.size()) / floor_bits - 1.0;
      least = std::min(least, above);
      most = std::max(most, above);
    }
    std::cout << fmt::format("{:7} of {}: {:7.4f} bits an index, {:+.2f} to {:+.2f} % above log2 C({}, {})\n",
                             row.count, kSize, floor_bits * (1.0 + most) / row.count, 100 * least, 100 * most, kSize,
                             row.count);
    EXPECT_LE(most, row.above_max) << row.count;
    EXPECT_GE(least, -0.005) << row.count << ": below the entropy by more than chance allows";
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
