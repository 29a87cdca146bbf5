// Bounds of a selection that a sample sets too high. Every backend must find the same, whatever it guesses on the way;
// the inputs are made from the sampler of the cpu backend, at the very places that it looks at.

#include <gtest/gtest.h>

#include <limits>

#include "kernels/cpu/cut.hpp"
#include "tests/kernels/inputs.hpp"

namespace gleaner {
namespace {

constexpr std::size_t kSize = 40'003;
constexpr std::uint32_t kCount = 1'000;
constexpr std::size_t kLoud = 80;  // more than the sample's rank, far fewer than are selected

// The places that a sample of the entries from `first` on is taken from.
std::vector<std::size_t> sampled_from(std::size_t first) {
  std::vector<std::size_t> places;
  cpu::sampled_bound<std::uint32_t>(first, kSize - first, kCount, [&](std::size_t i) {
    places.push_back(i);
    return 0U;
  });
  return places;
}

// Quiet entries, and a few loud ones wherever such a sample looks first: to it, all seem to be loud.
std::vector<float> misleading(std::size_t first) {
  auto x = testing::normal_vector(kSize, 31);
  const auto places = sampled_from(first);
  for (std::size_t j = 0; j < kLoud; ++j) x[places[j]] = 100.0F + static_cast<float>(j);
  return x;
}

class BoundKernels : public ::testing::TestWithParam<testing::Subject> {};

TEST(Bounds, ASampleOfLoudEntriesIsMisled) {
  const auto x = misleading(2 * cpu::kScanBlock);
  const std::uint32_t guess = cpu::sampled_bound<std::uint32_t>(
      2 * cpu::kScanBlock, kSize - 2 * cpu::kScanBlock, kCount, [&](std::size_t i) { return magnitude_bits(x[i]); });
  EXPECT_GE(guess, magnitude_bits(100.0F));
  Selection selection;
  (**kernels_for(Backend::reference)).select(x, kCount, selection);
  EXPECT_LT(selection.threshold, 10.0F);
}

// A hint of nearly nothing lets all entries through until there is no room: the rest is then sampled in mid-scan. One
// of the places is where that happens.
TEST_P(BoundKernels, ABoundGuessedTooHighInMidScanLosesNothing) {
  for (std::size_t first = 0; first <= 6 * cpu::kScanBlock; first += cpu::kScanBlock) {
    SCOPED_TRACE(first);
    const auto x = misleading(first);
    Selection expected;
    (**kernels_for(Backend::reference)).select(x, kCount, expected);
    for (const float hint : {0.0F, 2 * std::numeric_limits<float>::denorm_min(), 1e-30F}) {
      Selection actual;
      actual.threshold_hint = hint;
      GetParam()->select(x, kCount, actual);
      ASSERT_EQ(actual.indices, expected.indices);
      EXPECT_EQ(actual.values, expected.values);
      EXPECT_EQ(actual.threshold, expected.threshold);
      EXPECT_EQ(actual.squared_norm, expected.squared_norm);

      // The second scan must not add the update again.
      std::vector<float> residual(kSize, 0.0F);
      GetParam()->accumulate_and_select(x, residual, kCount, actual);
      ASSERT_EQ(actual.indices, expected.indices);
      EXPECT_EQ(actual.squared_norm, expected.squared_norm);
      EXPECT_EQ(residual, x);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, BoundKernels, ::testing::ValuesIn(testing::subjects()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace gleaner
