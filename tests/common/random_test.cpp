#include "common/random.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace gleaner {
namespace {

// Known answers of Random123's kat_vectors for philox4x32-10.
TEST(Philox, KnownAnswers) {
  const std::array<std::uint32_t, 4> zero = {0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U};
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), zero);
  const std::array<std::uint32_t, 4> ones = {0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU};
  EXPECT_EQ(philox({0xffffffffU, 0xffffffffU, 0xffffffffU, 0xffffffffU}, {0xffffffffU, 0xffffffffU}), ones);
}

TEST(Random, StreamDependsOnEveryArgument) {
  const auto first = [](std::uint64_t seed, Purpose p, std::uint64_t a, std::uint32_t b) {
    return Random(seed, p, a, b).bits64();
  };
  const auto base = first(1, Purpose::test, 2, 3);
  EXPECT_EQ(base, first(1, Purpose::test, 2, 3));
  EXPECT_NE(base, first(2, Purpose::test, 2, 3));
  EXPECT_NE(base, first(1, Purpose::cohort, 2, 3));
  EXPECT_NE(base, first(1, Purpose::test, 3, 3));
  EXPECT_NE(base, first(1, Purpose::test, 2, 4));
}

TEST(Random, BelowIsInRangeAndEven) {
  Random random(7, Purpose::test);
  std::array<int, 7> counts{};
  for (int i = 0; i < 70'000; ++i) ++counts.at(random.below(7));
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 500);
}

TEST(Random, MomentsOfNormalAndGamma) {
  Random random(9, Purpose::test);
  double sum = 0;
  double squares = 0;
  double gamma_sum = 0;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
    gamma_sum += random.gamma(0.5);
  }
  EXPECT_NEAR(sum / kDraws, 0.0, 0.02);
  EXPECT_NEAR(squares / kDraws, 1.0, 0.02);
  EXPECT_NEAR(gamma_sum / kDraws, 0.5, 0.02);
}

}  // namespace
}  // namespace gleaner
