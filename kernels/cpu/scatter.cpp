#include <cmath>
#include <cstdlib>

#include "common/check.hpp"
#include "kernels/arithmetic.hpp"
#include "kernels/cpu/cpu.hpp"

namespace gleaner::cpu {
namespace {

// Multiplying by a power of two is exact, and llrint is one instruction (-fno-math-errno): the bits are those of
// llrint(ldexp(...)).
struct Grid {
  Grid(std::uint32_t weight, int exponent) : weight_(weight) {
    GLEANER_CHECK(std::abs(exponent) <= kGridExponentMax);
    scale_ = power_of_two(exponent);
  }
  std::int64_t operator()(float value) const { return std::llrint(static_cast<double>(value) * weight_ * scale_); }

 private:
  double weight_;
  double scale_ = 1.0;
};

}  // namespace

void take_out(std::span<float> residual, std::span<const std::uint32_t> indices, std::span<const float> sent) {
  GLEANER_CHECK(indices.size() == sent.size());
  for (std::size_t j = 0; j < indices.size(); ++j) residual[indices[j]] -= sent[j];
}

void put_back(std::span<float> residual, std::span<const std::uint32_t> indices, std::span<const float> sent) {
  GLEANER_CHECK(indices.size() == sent.size());
  for (std::size_t j = 0; j < indices.size(); ++j) residual[indices[j]] += sent[j];
}

void scatter_add(std::span<std::int64_t> sum, std::span<const std::uint32_t> indices, std::span<const float> values,
                 std::uint32_t weight, int grid_exponent) {
  GLEANER_CHECK(indices.size() == values.size());
  const Grid grid(weight, grid_exponent);
  for (std::size_t j = 0; j < indices.size(); ++j) sum[indices[j]] += grid(values[j]);
}

void dense_add(std::span<std::int64_t> sum, std::span<const float> values, std::uint32_t weight, int grid_exponent) {
  GLEANER_CHECK(sum.size() == values.size());
  const Grid grid(weight, grid_exponent);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += grid(values[i]);
}

}  // namespace gleaner::cpu
