#include "aggregation/grid.hpp"

#include <gtest/gtest.h>

namespace gleaner {
namespace {

TEST(Grid, BitsHoldTheSummedWeights) {
  EXPECT_EQ(make_grid(10, 0)->weight_bits, 0);
  EXPECT_EQ(make_grid(10, 1)->weight_bits, 0);
  EXPECT_EQ(make_grid(10, 2)->weight_bits, 1);
  EXPECT_EQ(make_grid(10, 1'024)->weight_bits, 10);
  EXPECT_EQ(make_grid(10, 1'025)->weight_bits, 11);
  // The page's own example: clip 2^10, 10,000 devices of 10^6 samples.
  const Grid grid = *make_grid(10, 10'000'000'000);
  EXPECT_EQ(grid.weight_bits, 34);
  EXPECT_EQ(grid.exponent(), 17);
  EXPECT_EQ(grid.clip(), 1024.0F);
  EXPECT_EQ(make_grid(-3, 1)->clip(), 0.125F);
}

TEST(Grid, RefusesWhatWouldBeTooCoarse) {
  EXPECT_TRUE(make_grid(10, std::uint64_t{1} << 41).has_value());
  const auto coarse = make_grid(10, (std::uint64_t{1} << 41) + 1);
  ASSERT_FALSE(coarse.has_value());
  EXPECT_EQ(coarse.error().code(), ErrorCode::bad_input);
  EXPECT_NE(coarse.error().message().find("lower clip_exponent to at most 9"), std::string::npos);
  EXPECT_TRUE(make_grid(51, 1).has_value());
  EXPECT_FALSE(make_grid(52, 1).has_value());
  EXPECT_FALSE(make_grid(kClipExponentMin, UINT64_MAX).has_value());
  EXPECT_TRUE(make_grid(kClipExponentMin, 1).has_value());
  EXPECT_FALSE(make_grid(kClipExponentMin - 1, 1).has_value());
  EXPECT_FALSE(make_grid(2'000'000'000, 1).has_value());
  EXPECT_FALSE(make_grid(-2'000'000'000, 1).has_value());
}

}  // namespace
}  // namespace gleaner
