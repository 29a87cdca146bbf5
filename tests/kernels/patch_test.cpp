// The model under patches, and its hash.

#include <gtest/gtest.h>

#include "common/hash.hpp"
#include "kernels/kernels.hpp"
#include "tests/kernels/inputs.hpp"

namespace gleaner {
namespace {

class PatchKernels : public ::testing::TestWithParam<testing::Subject> {};

TEST_P(PatchKernels, HashIsTheSumOverCoordinates) {
  for (const std::size_t size : {0U, 1U, 3U, 4U, 5U, 1'001U}) {
    const auto model = testing::normal_vector(size, 2);
    std::uint64_t expected = 0;
    for (std::uint32_t i = 0; i < size; ++i) expected += coordinate_hash(i, model[i]);
    EXPECT_EQ(GetParam()->model_hash(model), expected);
  }
}

TEST_P(PatchKernels, SharesOfRangesAddUpToTheHash) {
  const auto model = testing::normal_vector(5'003, 2);
  for (const std::uint32_t cut : {0U, 1U, 7U, 64U, 2'501U, 5'003U}) {
    const auto head = std::span(model).first(cut);
    const auto tail = std::span(model).subspan(cut);
    EXPECT_EQ(GetParam()->range_hash(head, 0) + GetParam()->range_hash(tail, cut), GetParam()->model_hash(model));
  }
  // The last index that there is: no lane may run over into the next.
  std::uint64_t expected = 0;
  for (std::uint32_t i = 0; i < 33; ++i) expected += coordinate_hash(0xffffffffU - 32 + i, model[i]);
  EXPECT_EQ(GetParam()->range_hash(std::span(model).first(33), 0xffffffffU - 32), expected);
}

TEST_P(PatchKernels, PatchSubtractsAndKeepsTheHash) {
  auto model = testing::normal_vector(5'000, 3);
  const auto before = model;
  const auto steps = testing::normal_vector(5'000, 4);
  std::vector<std::uint32_t> indices;
  std::vector<float> u;
  for (std::uint32_t i = 2; i < 5'000; i += 11) {
    indices.push_back(i);
    u.push_back(steps[i]);
  }
  const std::uint64_t hash = GetParam()->apply_patch(model, indices, u, GetParam()->model_hash(model));
  EXPECT_EQ(hash, GetParam()->model_hash(model));
  for (std::size_t j = 0; j < indices.size(); ++j) ASSERT_EQ(model[indices[j]], before[indices[j]] - u[j]);
  EXPECT_EQ(model[3], before[3]);
}

TEST_P(PatchKernels, SignedZeroHasItsOwnHash) {
  std::vector<float> model = {-0.0F};
  const std::vector<float> positive = {0.0F};
  EXPECT_NE(GetParam()->model_hash(model), GetParam()->model_hash(positive));
  // x - x is +0, whichever sign x has.
  const std::vector<std::uint32_t> indices = {0};
  const std::vector<float> u = {-0.0F};
  const std::uint64_t hash = GetParam()->apply_patch(model, indices, u, GetParam()->model_hash(model));
  EXPECT_EQ(hash, GetParam()->model_hash(positive));
}

INSTANTIATE_TEST_SUITE_P(Backends, PatchKernels, ::testing::ValuesIn(testing::subjects()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace gleaner
