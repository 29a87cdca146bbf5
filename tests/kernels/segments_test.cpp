// Selections in many segments at once.

#include <gtest/gtest.h>

#include <bit>

#include "kernels/kernels.hpp"
#include "tests/kernels/inputs.hpp"

namespace gleaner {
namespace {

class SegmentKernels : public ::testing::TestWithParam<testing::Subject> {};

const std::vector<std::size_t> kOffsets = {0, 0, 1, 70, 70, 5'000, 25'000, 25'017, 60'000};
const std::vector<std::uint32_t> kCounts = {4, 1, 9, 0, 500, 200, 40, 35'000};

TEST_P(SegmentKernels, EverySegmentIsSelectedAsIfItStoodAlone) {
  const Parallel backwards = {.width = 2, .run = [](std::size_t parts, const std::function<void(std::size_t)>& part) {
                                for (std::size_t i = parts; i-- > 0;) part(i);
                              }};
  for (const auto& [name, x] : testing::finite_vectors(kOffsets.back(), GetParam().number())) {
    SCOPED_TRACE(name);
    SegmentSelection expected;
    (**kernels_for(Backend::reference)).select_segments(x, kOffsets, kCounts, expected);
    ASSERT_EQ(expected.begins.size(), kOffsets.size());
    for (const Parallel* parallel : {static_cast<const Parallel*>(nullptr), &backwards}) {
      SegmentSelection actual;
      actual.indices = {7};
      actual.begins = {1, 2};
      actual.parallel = parallel;
      GetParam()->select_segments(x, kOffsets, kCounts, actual);
      EXPECT_EQ(actual.indices, expected.indices);
      EXPECT_EQ(actual.values, expected.values);
      EXPECT_EQ(actual.begins, expected.begins);
      EXPECT_EQ(actual.thresholds, expected.thresholds);
      EXPECT_EQ(actual.squared_norms, expected.squared_norms);
      EXPECT_EQ(actual.parallel, parallel);
    }
    for (std::size_t s = 0; s < kCounts.size(); ++s) {
      Selection alone;
      const auto segment = std::span(x).subspan(kOffsets[s], kOffsets[s + 1] - kOffsets[s]);
      GetParam()->select(segment, kCounts[s], alone);
      ASSERT_EQ(alone.indices.size(), expected.begins[s + 1] - expected.begins[s]);
      for (std::size_t j = 0; j < alone.indices.size(); ++j) {
        ASSERT_EQ(kOffsets[s] + alone.indices[j], expected.indices[expected.begins[s] + j]);
      }
    }
  }
}

TEST_P(SegmentKernels, TheFirstNonFiniteEntryOfAllIsReportedAlone) {
  auto x = testing::normal_vector(kOffsets.back(), 4);
  x[59'000] = x[5'001] = std::numeric_limits<float>::infinity();
  SegmentSelection out;
  GetParam()->select_segments(x, kOffsets, kCounts, out);
  EXPECT_EQ(out.non_finite_index, 5'001U);
  EXPECT_TRUE(out.indices.empty());
  EXPECT_TRUE(out.begins.empty());
}

INSTANTIATE_TEST_SUITE_P(Backends, SegmentKernels, ::testing::ValuesIn(testing::subjects()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace gleaner
