#include "training/small_products.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/random.hpp"

namespace gleaner {
namespace {

using Values = std::vector<float>;

Values random_values(std::size_t size, std::uint64_t stream) {
  Random random(3, Purpose::test, stream);
  Values values(size);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

void expect_near(const Values& values, const std::vector<double>& expected, const char* what) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(double{values[i]}, expected[i], 2e-4 * (1.0 + std::abs(expected[i]))) << what << " " << i;
  }
}

// Every height of a tile, every part of a vector, more than one piece of weights.
class DenseProducts : public ::testing::TestWithParam<DenseShape> {};

TEST_P(DenseProducts, AreTheDefinitions) {
  const DenseShape s = GetParam();
  const Values input = random_values(s.rows * s.inputs, 1);
  const Values weights = random_values(s.inputs * s.outputs, 2);
  const Values gradient = random_values(s.rows * s.outputs, 3);
  std::vector<double> forward(s.rows * s.outputs, 0.0);
  std::vector<double> back(s.rows * s.inputs, 0.0);
  std::vector<double> slope(s.inputs * s.outputs, 0.0);
  for (std::size_t r = 0; r < s.rows; ++r) {
    for (std::size_t i = 0; i < s.inputs; ++i) {
      for (std::size_t o = 0; o < s.outputs; ++o) {
        const double w = double{weights[i * s.outputs + o]};
        forward[r * s.outputs + o] += double{input[r * s.inputs + i]} * w;
        back[r * s.inputs + i] += double{gradient[r * s.outputs + o]} * w;
        slope[i * s.outputs + o] += double{input[r * s.inputs + i]} * double{gradient[r * s.outputs + o]};
      }
    }
  }
  Values out(s.rows * s.outputs, NAN);
  dense_forward(input.data(), weights.data(), out.data(), s);
  expect_near(out, forward, "forward");
  out.assign(s.rows * s.inputs, NAN);
  dense_input_gradient(gradient.data(), weights.data(), out.data(), s);
  expect_near(out, back, "input gradient");
  out.assign(s.inputs * s.outputs, NAN);
  dense_weight_gradient(input.data(), gradient.data(), out.data(), s, {1.0F, 0.0F});
  expect_near(out, slope, "weight gradient");
  out = weights;
  dense_weight_gradient(input.data(), gradient.data(), out.data(), s, {-0.5F, 0.75F});
  for (std::size_t i = 0; i < slope.size(); ++i) slope[i] = -0.5 * slope[i] + 0.75 * double{weights[i]};
  expect_near(out, slope, "step");
}
INSTANTIATE_TEST_SUITE_P(Shapes, DenseProducts,
                         ::testing::Values(DenseShape{1, 1, 1}, DenseShape{2, 3, 5}, DenseShape{3, 129, 8},
                                           DenseShape{4, 17, 10}, DenseShape{5, 300, 16}, DenseShape{6, 40, 17},
                                           DenseShape{7, 9, 31}, DenseShape{10, 784, 10}, DenseShape{13, 33, 40},
                                           DenseShape{32, 50, 62}, DenseShape{64, 20, 200}));

struct WindowCase {
  WindowShape shape;
  std::size_t border;  // floats in a row of the image beyond what the windows need
};

class Windows : public ::testing::TestWithParam<WindowCase> {};

TEST_P(Windows, AreTheDefinitions) {
  WindowShape s = GetParam().shape;
  s.row = (s.width + s.kernel - 1) * s.channels + GetParam().border;
  const Values image = random_values((s.height + s.kernel - 1) * s.row, 1);
  const Values weights = random_values(s.window() * s.outputs, 2);
  const Values bias = random_values(s.outputs, 3);
  const Values gradient = random_values(s.height * s.width * s.outputs, 4);
  std::vector<double> plain(gradient.size(), 0.0);
  std::vector<double> slope(weights.size(), 0.0);
  for (std::size_t y = 0; y < s.height; ++y) {
    for (std::size_t x = 0; x < s.width; ++x) {
      for (std::size_t k = 0; k < s.window(); ++k) {
        const double pixel = double{image[(y + k / s.run()) * s.row + x * s.channels + k % s.run()]};
        for (std::size_t o = 0; o < s.outputs; ++o) {
          const std::size_t at = (y * s.width + x) * s.outputs + o;
          plain[at] += pixel * double{weights[k * s.outputs + o]};
          slope[k * s.outputs + o] += pixel * double{gradient[at]};
        }
      }
    }
  }
  Values packed(packed_size(s));
  pack_weights(weights.data(), packed.data(), s);
  Values out(gradient.size(), NAN);
  convolve(image.data(), packed.data(), nullptr, out.data(), s);
  expect_near(out, plain, "plain");
  convolve(image.data(), packed.data(), bias.data(), out.data(), s);
  for (std::size_t i = 0; i < plain.size(); ++i) plain[i] = std::max(0.0, plain[i] + double{bias[i % s.outputs]});
  expect_near(out, plain, "with bias and ReLU");
  Values sums(weights.size(), NAN);
  sum_weight_gradient(image.data(), gradient.data(), sums.data(), s, Sum::start);
  expect_near(sums, slope, "weight gradient");
  sum_weight_gradient(image.data(), gradient.data(), sums.data(), s, Sum::add);
  for (double& value : slope) value *= 2.0;
  expect_near(sums, slope, "sum of two");
}
INSTANTIATE_TEST_SUITE_P(Shapes, Windows,
                         ::testing::Values(WindowCase{{1, 1, 1, 0, 1, 1}, 0}, WindowCase{{3, 4, 1, 0, 5, 16}, 0},
                                           WindowCase{{5, 7, 3, 0, 3, 32}, 4}, WindowCase{{2, 13, 2, 0, 3, 10}, 0},
                                           WindowCase{{6, 60, 1, 0, 2, 20}, 1}, WindowCase{{9, 3, 16, 0, 5, 40}, 0}));

TEST(SmallProducts, NotANumberPassesThroughReLU) {
  const WindowShape s = {1, 1, 1, 1, 1, 3};
  const Values image = {1.0F};
  const Values weights = {NAN, -1.0F, 2.0F};
  const Values bias = {0.0F, 0.0F, 0.0F};
  Values packed(packed_size(s));
  pack_weights(weights.data(), packed.data(), s);
  Values out(3);
  convolve(image.data(), packed.data(), bias.data(), out.data(), s);
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_EQ(out[1], 0.0F);
  EXPECT_EQ(out[2], 2.0F);
}

}  // namespace
}  // namespace gleaner
