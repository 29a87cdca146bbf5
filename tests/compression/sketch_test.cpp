// Count sketches, alone and with a support, and pooling.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "common/hash.hpp"
#include "compression/sketch/count_sketch.hpp"
#include "compression/sketch/pool.hpp"
#include "compression/sketch/sparse_sketch.hpp"
#include "tests/compression/corruption.hpp"
#include "tests/compression/vectors.hpp"

namespace gleaner {
namespace {

struct Amounts {
  std::vector<std::uint32_t> indices;
  std::vector<std::int64_t> amounts;
};

Amounts random_amounts(Random& random, std::uint32_t dimension, std::uint32_t count) {
  Amounts x{.indices = testing::random_indices(random, dimension, count)};
  for (std::size_t j = 0; j < x.indices.size(); ++j) {
    x.amounts.push_back(static_cast<std::int64_t>(random.bits64() >> 24) - (std::int64_t{1} << 39));
  }
  return x;
}

CountSketch sketch_of(const SketchShape& shape, const Amounts& x) {
  CountSketch sketch(shape);
  EXPECT_TRUE(sketch.add(x.indices, x.amounts));
  return sketch;
}

bool equal(const CountSketch& a, const CountSketch& b) {
  return std::ranges::equal(a.cells(), b.cells()) && a.mass() == b.mass();
}

// The hashes are stored and sent: written out here as docs/sketches.md has them.
TEST(CountSketch, CellsAreWhereTheDocumentSays) {
  const SketchShape shape{.rows = 3, .columns = 7, .seed = 42};
  CountSketch sketch(shape);
  ASSERT_TRUE(sketch.add(std::vector<std::uint32_t>{1'000}, std::vector<std::int64_t>{5}));
  std::vector<std::int64_t> expected(21);
  for (std::uint64_t row = 0; row < 3; ++row) {
    const std::uint64_t hash = mix64(mix64(mix64(42) + row) ^ 1'000U);
    expected[row * 7 + ((hash >> 32) * 7 >> 32)] = hash % 2 == 1 ? 5 : -5;
  }
  EXPECT_TRUE(std::ranges::equal(sketch.cells(), expected));
  EXPECT_EQ(sketch.estimate(1'000), 5);
}

TEST(CountSketch, TheSketchOfASumIsTheSumOfTheSketches) {
  EXPECT_TRUE(rc::check("linear", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>(), Purpose::test);
    const SketchShape shape{.rows = 1 + 2 * random.below(4), .columns = 1 + random.below(200), .seed = random.bits64()};
    const auto x = random_amounts(random, 3'000, random.below(300));
    const auto y = random_amounts(random, 3'000, random.below(300));
    CountSketch xy = sketch_of(shape, x);
    RC_ASSERT(xy.merge(sketch_of(shape, y)).has_value());
    CountSketch yx = sketch_of(shape, y);
    RC_ASSERT(yx.add(x.indices, x.amounts).has_value());
    RC_ASSERT(equal(xy, yx));
    std::map<std::uint32_t, std::int64_t> sum;
    for (std::size_t j = 0; j < x.indices.size(); ++j) sum[x.indices[j]] += x.amounts[j];
    for (std::size_t j = 0; j < y.indices.size(); ++j) sum[y.indices[j]] += y.amounts[j];
    Amounts together;
    for (const auto& [index, amount] : sum) {
      together.indices.push_back(index);
      together.amounts.push_back(amount);
    }
    RC_ASSERT(std::ranges::equal(sketch_of(shape, together).cells(), xy.cells()));
  }));
}

// Few entries among many cells: most meet no other in most rows and come out exactly.
TEST(CountSketch, FindsTheHeavyAmongTheLight) {
  constexpr std::uint32_t kDimension = 20'000;
  Random random(2, Purpose::test);
  CountSketch sketch({.rows = 5, .columns = 2'000, .seed = 9});
  std::vector<std::uint32_t> all(kDimension);
  std::iota(all.begin(), all.end(), 0U);
  std::vector<std::int64_t> amounts(kDimension);
  for (auto& amount : amounts) amount = static_cast<std::int64_t>(random.below(201)) - 100;
  std::vector<std::uint32_t> heavy;
  for (std::uint32_t j = 0; j < 20; ++j) {
    heavy.push_back(j * 977 + 13);
    amounts[heavy.back()] = (j % 2 == 0 ? 1 : -1) * static_cast<std::int64_t>(100'000 + 1'000 * j);
  }
  ASSERT_TRUE(sketch.add(all, amounts));
  const auto found = sketch.largest(kDimension, 20);
  ASSERT_EQ(found.size(), 20U);
  for (std::size_t j = 0; j < found.size(); ++j) {
    EXPECT_EQ(found[j].index, heavy[j]);
    EXPECT_NEAR(static_cast<double>(found[j].weight), static_cast<double>(amounts[heavy[j]]), 2'000);
  }
  EXPECT_EQ(sketch.largest(heavy, 20), found);
  sketch.clear(heavy);
  for (const std::uint32_t index : heavy) EXPECT_EQ(sketch.estimate(index), 0);
}

TEST(CountSketch, LargestIsTheTopOfAllEstimatesTiesToTheLowerIndex) {
  EXPECT_TRUE(rc::check("largest", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>(), Purpose::test);
    const std::uint32_t dimension = 1 + random.below(2'000);
    auto x = random_amounts(random, dimension, random.below(dimension + 1));
    for (auto& amount : x.amounts) amount = amount % 4;  // many ties
    const auto sketch = sketch_of({.rows = 3, .columns = 1 + random.below(500), .seed = 5}, x);
    std::vector<WeightedIndex> all;
    for (std::uint32_t i = 0; i < dimension; ++i) {
      if (sketch.estimate(i) != 0) all.push_back({i, sketch.estimate(i)});
    }
    std::ranges::sort(all, {}, [](const WeightedIndex& e) { return std::pair(-std::abs(e.weight), e.index); });
    const std::size_t k = random.below(300);
    all.resize(std::min(all.size(), k));
    std::ranges::sort(all, {}, &WeightedIndex::index);
    RC_ASSERT(sketch.largest(dimension, k) == all);
  }));
}

TEST(CountSketch, MassThatCellsCouldNotHoldIsRefusedAndChangesNothing) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  CountSketch sketch({.rows = 1, .columns = 1});
  ASSERT_TRUE(sketch.add(std::vector<std::uint32_t>{0}, std::vector<std::int64_t>{kMost - 1}));
  const CountSketch before = sketch;
  EXPECT_FALSE(sketch.add(std::vector<std::uint32_t>{1, 2}, std::vector<std::int64_t>{1, -1}));
  EXPECT_FALSE(sketch.add(std::vector<std::uint32_t>{1}, std::vector<std::int64_t>{-kMost - 1}));
  EXPECT_FALSE(sketch.merge(before));
  EXPECT_TRUE(equal(sketch, before));
  EXPECT_TRUE(sketch.add(std::vector<std::uint32_t>{1}, std::vector<std::int64_t>{-1}));
}

TEST(CountSketch, ShapesAreChecked) {
  EXPECT_TRUE(check_shape({.rows = 31, .columns = 1}));
  for (const SketchShape shape : {SketchShape{.rows = 0}, SketchShape{.rows = 2}, SketchShape{.rows = 33},
                                  SketchShape{.columns = 0}, SketchShape{.rows = 5, .columns = 1U << 31}}) {
    EXPECT_FALSE(check_shape(shape));
  }
}

TEST(CountSketch, RecordsAreStrict) {
  const SketchShape shape{.rows = 3, .columns = 10, .seed = 7};
  Random random(3, Purpose::test);
  const CountSketch sketch = sketch_of(shape, random_amounts(random, 100, 20));
  const Bytes good = sketch.to_bytes();
  const auto read = CountSketch::from_bytes(good, shape);
  ASSERT_TRUE(read);
  EXPECT_TRUE(equal(*read, sketch));
  const auto code = [&](const Bytes& bytes, const SketchShape& want) {
    const auto got = CountSketch::from_bytes(bytes, want);
    return got ? RefusalCode::none : got.error().code();
  };
  EXPECT_EQ(code(good, {.rows = 3, .columns = 10, .seed = 8}), RefusalCode::schema_mismatch);
  EXPECT_EQ(code(good, {.rows = 5, .columns = 6, .seed = 7}), RefusalCode::schema_mismatch);
  EXPECT_EQ(code(good, {.rows = 3, .columns = 11, .seed = 7}), RefusalCode::malformed);
  EXPECT_EQ(code(Bytes(good.begin(), good.end() - 1), shape), RefusalCode::malformed);
  Bytes light = good;
  for (std::size_t at = 16; at < 24; ++at) light[at] = std::byte{0};
  EXPECT_EQ(code(light, shape), RefusalCode::over_bound);
  Bytes wraps = good;  // the least number has no magnitude of its own sign
  for (std::size_t at = 16; at < 32; ++at) wraps[at] = std::byte{at % 8 == 7 ? std::byte{0x80} : std::byte{0}};
  EXPECT_EQ(code(wraps, shape), RefusalCode::over_bound);
}

TEST(SparseSketch, NothingAppearsOutsideTheUnionAndTheUncollidedIsExact) {
  EXPECT_TRUE(rc::check("support", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>(), Purpose::test);
    const std::uint32_t dimension = 1 + random.below(2'000);
    const SketchShape shape{.rows = 5, .columns = 4'000, .seed = random.bits64()};
    SparseSketch sum(dimension, shape);
    std::map<std::uint32_t, std::int64_t> truth;
    for (int device = 0; device < 3; ++device) {
      const auto x = random_amounts(random, dimension, random.below(std::min(dimension, 20U)));
      SparseSketch own(dimension, shape);
      RC_ASSERT(own.add(x.indices, x.amounts).has_value());
      const auto sent = SparseSketch::from_bytes(own.to_bytes(), dimension, shape);
      RC_ASSERT(sent.has_value());
      RC_ASSERT(sum.merge(*sent).has_value());
      for (std::size_t j = 0; j < x.indices.size(); ++j) truth[x.indices[j]] += x.amounts[j];
    }
    std::size_t wrong = 0;
    const auto estimates = sum.estimates();
    RC_ASSERT(estimates.size() == truth.size());
    for (const WeightedIndex& estimate : estimates) {
      RC_ASSERT(truth.contains(estimate.index));
      wrong += truth[estimate.index] != estimate.weight ? 1 : 0;
    }
    // 60 entries in 4000 cells: three of five rows collide for one entry in some thirty thousand.
    RC_ASSERT(wrong <= 1U);
  }));
}

TEST(SparseSketch, DamageIsRefusedOrHarmless) {
  Random random(4, Purpose::test);
  const SketchShape shape{.rows = 1, .columns = 4, .seed = 1};
  SparseSketch sketch(70, shape);
  ASSERT_TRUE(sketch.add(std::vector<std::uint32_t>{1, 69}, std::vector<std::int64_t>{5, -6}));
  EXPECT_EQ(sketch.support(), (std::vector<std::uint32_t>{1, 69}));
  const Bytes good = sketch.to_bytes();
  Bytes padded = good;
  padded[8] |= std::byte{0x80};
  EXPECT_FALSE(SparseSketch::from_bytes(padded, 70, shape));
  for (int trial = 0; trial < 2'000; ++trial) {
    const auto read = SparseSketch::from_bytes(testing::corrupted(random, good), 70, shape);
    if (!read) continue;
    for (const WeightedIndex& estimate : read->estimates()) {
      EXPECT_LT(estimate.index, 70U);
      EXPECT_LE(static_cast<std::uint64_t>(std::abs(estimate.weight)), read->sketch().mass());
    }
  }
}

TEST(Pool, MeansAndWhatTheyLeaveBehind) {
  const std::vector<float> x = {1, 3, 5, 7, 2, 2, 0, 4};
  const PoolBlocks blocks{.dimension = 8, .window = 2};
  std::vector<float> means(blocks.count());
  pool_means(blocks, x, means);
  EXPECT_EQ(means, (std::vector<float>{2, 6, 2, 2}));
  std::vector<float> spread(8);
  spread_means(blocks, means, spread);
  std::vector<float> rest(8);
  float energy = 0.0F;
  for (std::size_t i = 0; i < 8; ++i) energy += (rest[i] = x[i] - spread[i]) * rest[i];
  EXPECT_EQ(rest, (std::vector<float>{-1, 1, -1, 1, 0, 0, -2, 2}));
  EXPECT_EQ(energy, 12.0F);
}

TEST(Pool, IsAProjectionWhateverTheBlocks) {
  EXPECT_TRUE(rc::check("projection", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>(), Purpose::test);
    PoolBlocks blocks{.dimension = random.below(300), .window = 1 + random.below(40)};
    blocks.shift = pool_shift(random.bits64(), random.bits64(), blocks.window);
    RC_ASSERT(blocks.shift < blocks.window);
    std::vector<float> values(blocks.dimension);
    for (float& value : values) value = testing::nasty_value(random, 0x1p30F);
    std::vector<float> means(blocks.count()), again(blocks.count()), spread(blocks.dimension);
    pool_means(blocks, values, means);
    spread_means(blocks, means, spread);
    pool_means(blocks, spread, again);
    RC_ASSERT(again == means);
    for (std::uint32_t i = 0; i < blocks.dimension; ++i) {
      RC_ASSERT(spread[i] == means[(i + blocks.shift) / blocks.window]);
    }
    const SparseVector largest = pool_largest(blocks, values);
    std::size_t j = 0;
    for (std::uint32_t b = 0; b < blocks.count(); ++b) {
      std::vector<float> block;
      std::uint32_t begin = blocks.dimension;
      for (std::uint32_t i = 0; i < blocks.dimension; ++i) {
        if ((i + blocks.shift) / blocks.window != b) continue;
        begin = std::min(begin, i);
        block.push_back(std::fabs(values[i]));
      }
      const auto best = std::ranges::max_element(block);
      if (*best == 0.0F) continue;
      RC_ASSERT(largest.indices[j] == begin + static_cast<std::uint32_t>(best - block.begin()));
      RC_ASSERT(largest.values[j] == values[largest.indices[j]]);
      ++j;
    }
    RC_ASSERT(j == largest.indices.size());
  }));
}

TEST(Pool, ShiftsReachEveryPlace) {
  std::vector<int> seen(7);
  for (std::uint64_t round = 0; round < 700; ++round) ++seen[pool_shift(1, round, 7)];
  for (const int times : seen) EXPECT_GT(times, 60);
  EXPECT_EQ(pool_shift(1, 5, 1), 0U);
}

}  // namespace
}  // namespace gleaner
