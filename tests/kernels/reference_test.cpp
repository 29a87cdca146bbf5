// The reference itself, against results worked out by hand.

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/kernels.hpp"

namespace gleaner {
namespace {

const KernelTable& reference() { return **kernels_for(Backend::reference); }

TEST(Reference, SelectsTheLargestMagnitudes) {
  const std::vector<float> x = {1.0F, -5.0F, 3.0F, 0.0F, -3.0F, 4.0F};
  Selection out;
  reference().select(x, 3, out);
  EXPECT_EQ(out.indices, (std::vector<std::uint32_t>{1, 2, 5}));
  EXPECT_EQ(out.values, (std::vector<float>{-5.0F, 3.0F, 4.0F}));
  EXPECT_EQ(out.threshold, 3.0F);
  EXPECT_EQ(out.squared_norm, 60.0);
  EXPECT_EQ(out.non_finite_index, Selection::kAllFinite);
}

TEST(Reference, ZerosFillASelectionUp) {
  const std::vector<float> x = {0.0F, -0.0F, 2.0F, 0.0F};
  Selection out;
  reference().select(x, 3, out);
  EXPECT_EQ(out.indices, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_TRUE(std::signbit(out.values[1]));
  EXPECT_EQ(out.threshold, 0.0F);
}

TEST(Reference, IntegerSelectionsLeaveZerosOut) {
  const std::vector<std::int64_t> x = {0, -7, 0, 7, 2};
  std::vector<std::uint32_t> indices;
  reference().select_integers(x, 4, indices);
  EXPECT_EQ(indices, (std::vector<std::uint32_t>{1, 3, 4}));
  reference().select_integers(x, 1, indices);
  EXPECT_EQ(indices, (std::vector<std::uint32_t>{1}));
}

TEST(Reference, SquaredNormIsSummedLaneByLane) {
  // In lane 0 each 1 is lost beside 2^54, whose neighbour is 4 away.
  std::vector<float> x(65, 0.0F);
  x[0] = 0x1p27F;
  for (const std::size_t i : {16U, 32U, 48U, 64U}) x[i] = 1.0F;
  Selection out;
  reference().select(x, 0, out);
  EXPECT_EQ(out.squared_norm, 0x1p54);
  // In the lanes 1 and 9 they come to 4 before they meet lane 0.
  for (const std::size_t i : {16U, 32U, 48U, 64U}) x[i] = 0.0F;
  for (const std::size_t i : {1U, 9U, 17U, 25U}) x[i] = 1.0F;
  reference().select(x, 0, out);
  EXPECT_EQ(out.squared_norm, 0x1p54 + 4.0);
}

TEST(Reference, AccumulatesBeforeItSelects) {
  const std::vector<float> update = {1.0F, 1.0F, -4.0F};
  std::vector<float> residual = {0.0F, 2.0F, 3.0F};
  Selection out;
  reference().accumulate_and_select(update, residual, 1, out);
  EXPECT_EQ(residual, (std::vector<float>{1.0F, 3.0F, -1.0F}));
  EXPECT_EQ(out.indices, (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(out.squared_norm, 11.0);
}

}  // namespace
}  // namespace gleaner
