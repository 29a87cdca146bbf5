#include "aggregation/accumulator.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "rounds.hpp"

namespace gleaner {
namespace {

__extension__ using Wide = __int128;

struct Contribution {
  SparseVector update;
  std::uint32_t weight = 0;
};

std::vector<Contribution> contributions(std::uint64_t seed, std::uint32_t dimension, std::uint32_t count) {
  Random random(seed, Purpose::test);
  std::vector<Contribution> all;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t entries = i % 5 == 0 ? dimension : random.below(dimension + 1);
    all.push_back({random_update(random, dimension, entries), random.below(10'000)});
  }
  return all;
}

// x * n * 2^exponent to the nearest integer, ties to even, in integers alone.
Wide exact(float x, std::uint32_t n, int exponent) {
  int power = 0;
  const float fraction = std::frexp(x, &power);
  const Wide product = static_cast<Wide>(static_cast<std::int64_t>(std::ldexp(fraction, 24))) * n;
  const int shift = power - 24 + exponent;
  if (shift >= 0) return product * (Wide{1} << shift);
  if (shift < -100) return 0;
  const Wide unit = Wide{1} << -shift;
  Wide floor = product / unit;
  Wide rest = product % unit;
  if (rest < 0) {
    floor -= 1;
    rest += unit;
  }
  const bool up = 2 * rest > unit || (2 * rest == unit && floor % 2 != 0);
  return floor + (up ? 1 : 0);
}

RC_GTEST_PROP(Fold, IgnoresOrder, ()) {
  const auto dimension = *rc::gen::inRange(1U, 60U);
  auto all = contributions(*rc::gen::arbitrary<std::uint64_t>(), dimension, *rc::gen::inRange(0U, 20U));
  Accumulator one(dimension, backend());
  Accumulator other(dimension, backend(Backend::reference));
  one.reset(grid_for(200'000));
  other.reset(grid_for(200'000));
  for (const auto& c : all) one.fold(c.update, c.weight);
  Random random(*rc::gen::arbitrary<std::uint64_t>(), Purpose::test);
  std::ranges::shuffle(all, random);
  for (const auto& c : all) other.fold(c.update, c.weight);
  RC_ASSERT(std::ranges::equal(one.sum(), other.sum()));
  RC_ASSERT(one.to_record() == other.to_record());
}

RC_GTEST_PROP(Fold, SplitsOverTwoAccumulatorsAddUp, ()) {
  const auto dimension = *rc::gen::inRange(1U, 60U);
  const auto all = contributions(*rc::gen::arbitrary<std::uint64_t>(), dimension, *rc::gen::inRange(0U, 20U));
  std::vector<Accumulator> parts(3, Accumulator(dimension, backend()));
  for (auto& part : parts) part.reset(grid_for(200'000));
  for (const auto& c : all) {
    parts[2].fold(c.update, c.weight);
    parts[*rc::gen::inRange<std::size_t>(0, 2)].fold(c.update, c.weight);
  }
  for (std::uint32_t i = 0; i < dimension; ++i) {
    RC_ASSERT(parts[0].sum()[i] + parts[1].sum()[i] == parts[2].sum()[i]);
  }
  RC_ASSERT(parts[0].weight() + parts[1].weight() == parts[2].weight());
}

RC_GTEST_PROP(Fold, IsExactOnTheGrid, ()) {
  const auto dimension = *rc::gen::inRange(1U, 40U);
  const auto all = contributions(*rc::gen::arbitrary<std::uint64_t>(), dimension, *rc::gen::inRange(0U, 12U));
  const Grid grid = grid_for(200'000, *rc::gen::inRange(3, 30));
  std::vector<Wide> expected(dimension);
  for (const Backend which : {Backend::cpu, Backend::reference}) {
    Accumulator accumulator(dimension, backend(which));
    accumulator.reset(grid);
    std::ranges::fill(expected, 0);
    for (const auto& c : all) {
      accumulator.fold(c.update, c.weight);
      for (std::size_t j = 0; j < c.update.indices.size(); ++j) {
        expected[c.update.indices[j]] += exact(c.update.values[j], c.weight, grid.exponent());
      }
    }
    for (std::uint32_t i = 0; i < dimension; ++i) RC_ASSERT(Wide{accumulator.sum()[i]} == expected[i]);
  }
}

TEST(Fold, WeightZeroChangesNothing) {
  Accumulator accumulator(4, backend());
  accumulator.reset(grid_for(100));
  const Bytes empty = accumulator.to_record();
  accumulator.fold({.dimension = 4, .indices = {1}, .values = {1.0F}}, 0);
  EXPECT_EQ(accumulator.to_record(), empty);
  EXPECT_EQ(accumulator.contributions(), 0U);
}

// Everybody sends the clip itself with all the weight there is: the largest sum, at every corner of the grid.
TEST(Fold, ExtremesOfTheGridDoNotOverflow) {
  for (const int clip : {kClipExponentMin, 0, 10, 19}) {
    for (const std::uint64_t weight : {std::uint64_t{1}, std::uint64_t{1} << 20, std::uint64_t{0xffffffff}}) {
      const Grid grid = grid_for(weight, clip);
      for (const float sign : {1.0F, -1.0F}) {
        Accumulator accumulator(3, backend());
        accumulator.reset(grid);
        const SparseVector update{.dimension = 3, .indices = {0, 2}, .values = {sign * grid.clip(), grid.clip()}};
        accumulator.fold(update, static_cast<std::uint32_t>(weight / 2));
        accumulator.fold(update, static_cast<std::uint32_t>(weight - weight / 2));
        const auto per_sample = std::int64_t{1} << (61 - grid.weight_bits);
        EXPECT_EQ(accumulator.sum()[0],
                  static_cast<std::int64_t>(sign) * per_sample * static_cast<std::int64_t>(weight));
        EXPECT_LE(std::abs(accumulator.sum()[0]), std::int64_t{1} << 61);
        EXPECT_EQ(accumulator.sum()[1], 0);
        Accumulator loaded(3, backend());
        ASSERT_TRUE(loaded.load(accumulator.to_record()).has_value());
        EXPECT_TRUE(std::ranges::equal(loaded.sum(), accumulator.sum()));
      }
    }
  }
}

TEST(Fold, AdmitsOnlyTheWeightTheGridWasMadeFor) {
  Accumulator accumulator(1, backend());
  accumulator.reset(grid_for(16));
  EXPECT_TRUE(accumulator.admits(16));
  EXPECT_FALSE(accumulator.admits(17));
  const SparseVector update{.dimension = 1, .indices = {0}, .values = {1.0F}};
  accumulator.fold(update, 10);
  EXPECT_TRUE(accumulator.admits(6));
  EXPECT_FALSE(accumulator.admits(7));
  EXPECT_DEATH(accumulator.fold(update, 7), "admits");
}

TEST(Fold, SubnormalAndNegativeZeroAreDefined) {
  Accumulator accumulator(3, backend());
  accumulator.reset(grid_for(1));  // 2^-51
  accumulator.fold({.dimension = 3, .indices = {0, 1, 2}, .values = {-0.0F, 0x1p-149F, 0x1p-52F}}, 1);
  EXPECT_EQ(accumulator.sum()[0], 0);
  EXPECT_EQ(accumulator.sum()[1], 0);
  EXPECT_EQ(accumulator.sum()[2], 0) << "half a step goes to the even side";
}

RC_GTEST_PROP(Record, RoundTrips, ()) {
  const auto dimension = *rc::gen::inRange(1U, 80U);
  const auto all = contributions(*rc::gen::arbitrary<std::uint64_t>(), dimension, *rc::gen::inRange(0U, 4U));
  Accumulator accumulator(dimension, backend());
  accumulator.reset(grid_for(40'000));
  for (const auto& c : all) accumulator.fold(c.update, c.weight);
  const Bytes record = accumulator.to_record();
  Accumulator loaded(dimension, backend());
  loaded.reset(grid_for(7));
  loaded.fold({.dimension = dimension, .indices = {0}, .values = {1.0F}}, 1);
  RC_ASSERT(loaded.load(record).has_value());
  RC_ASSERT(std::ranges::equal(loaded.sum(), accumulator.sum()));
  RC_ASSERT(loaded.grid() == accumulator.grid());
  RC_ASSERT(loaded.weight() == accumulator.weight());
  RC_ASSERT(loaded.contributions() == accumulator.contributions());
  RC_ASSERT(loaded.to_record() == record);
  Bytes after{std::byte{1}, std::byte{2}};
  accumulator.append_record(after);
  RC_ASSERT(std::ranges::equal(ByteView(after).subspan(2), record));
}

TEST(Record, SparseSumsAreSmall) {
  constexpr std::uint32_t kDimension = 100'000;
  Accumulator accumulator(kDimension, backend());
  accumulator.reset(grid_for(1'000));
  const std::size_t empty = accumulator.to_record().size();
  EXPECT_EQ(empty, 22U + 2U + 1U + 8U);
  accumulator.fold({.dimension = kDimension, .indices = {0, 99'999}, .values = {1.0F, -2.0F}}, 3);
  EXPECT_EQ(accumulator.to_record().size(), empty + 2 + 4) << "gaps of 1 and 3 bytes, values 1 byte after the shift";
}

TEST(Record, EveryFlippedByteAndEveryCutIsFound) {
  Accumulator accumulator(50, backend());
  fold_round(accumulator, 3, 0, 4, 9);
  const Bytes record = accumulator.to_record();
  Accumulator loaded(50, backend());
  for (std::size_t i = 0; i < record.size(); ++i) {
    Bytes damaged = record;
    damaged[i] ^= std::byte{0x10};
    const auto status = loaded.load(damaged);
    ASSERT_FALSE(status.has_value()) << i;
    EXPECT_EQ(status.error().code(), ErrorCode::corrupt);
    ASSERT_FALSE(loaded.load(ByteView(record).first(i)).has_value()) << i;
  }
  EXPECT_EQ(loaded.weight(), 0U);
  EXPECT_TRUE(std::ranges::all_of(loaded.sum(), [](std::int64_t x) { return x == 0; }));
  Accumulator other(51, backend());
  EXPECT_FALSE(other.load(record).has_value());
}

}  // namespace
}  // namespace gleaner
