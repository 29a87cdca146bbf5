#include "simulation/devices/portable_math.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

namespace gleaner::simulation {
namespace {

double between(double least, double most) {
  const auto share = static_cast<double>(*rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 53)) * 0x1.0p-53;
  return least + (most - least) * share;
}

RC_GTEST_PROP(PortableMath, ExpIsNearTheOneOfTheMachine, ()) {
  const double x = between(-700.0, 700.0);
  RC_ASSERT(std::abs(portable_exp(x) / std::exp(x) - 1.0) < 4e-16 * (2.0 + std::abs(x)));
}

RC_GTEST_PROP(PortableMath, LogIsNearTheOneOfTheMachine, ()) {
  const double x = std::exp(between(-700.0, 700.0));
  RC_ASSERT(std::abs(portable_log(x) - std::log(x)) < 1e-15 * (1.0 + std::abs(std::log(x))));
}

TEST(PortableMath, KnownValues) {
  EXPECT_EQ(portable_exp(0.0), 1.0);
  EXPECT_EQ(portable_log(1.0), 0.0);
  EXPECT_DOUBLE_EQ(portable_exp(1.0), 2.718281828459045);
  EXPECT_DOUBLE_EQ(portable_log(10.0), 2.302585092994046);
  EXPECT_DOUBLE_EQ(portable_log(0.5), -0.6931471805599453);
  EXPECT_EQ(portable_exp(1e9), portable_exp(700.0));
}

// The very bits, so that another machine or another compiler that draws others is found out.
TEST(PortableMath, DrawsAreTheSameEverywhere) {
  Random random(7, Purpose::test);
  EXPECT_EQ(portable_normal(random), 0x1.258bf81ae5e5fp-5);
  EXPECT_EQ(portable_exponential(random), 0x1.5fcd4fec9f46ep-1);
  EXPECT_EQ(portable_exp(0x1.5p+1), 0x1.b9bf125d0ba5dp+3);
}

TEST(PortableMath, NormalNumbersHaveTheirMoments) {
  Random random(1, Purpose::test);
  constexpr int kDraws = 200'000;
  double sum = 0.0, squares = 0.0, beyond_two = 0.0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = portable_normal(random);
    sum += x;
    squares += x * x;
    beyond_two += std::abs(x) > 2.0 ? 1.0 : 0.0;
  }
  EXPECT_NEAR(sum / kDraws, 0.0, 0.01);
  EXPECT_NEAR(squares / kDraws, 1.0, 0.02);
  EXPECT_NEAR(beyond_two / kDraws, 0.0455, 0.003);
}

TEST(PortableMath, ExponentialTimesHaveTheirMean) {
  Random random(2, Purpose::test);
  constexpr int kDraws = 200'000;
  double sum = 0.0, beyond_one = 0.0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = portable_exponential(random);
    ASSERT_GE(x, 0.0);
    sum += x;
    beyond_one += x > 1.0 ? 1.0 : 0.0;
  }
  EXPECT_NEAR(sum / kDraws, 1.0, 0.01);
  EXPECT_NEAR(beyond_one / kDraws, 0.3679, 0.005);
}

}  // namespace
}  // namespace gleaner::simulation
