// Every compressor of the table, with every kind of memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "compression/compressors/compressors.hpp"
#include "compression/device_memory.hpp"
#include "tests/compression/vectors.hpp"

namespace gleaner {
namespace {

const KernelTable& kernels() { return **kernels_for(Backend::cpu); }

struct Case {
  std::string name;
  bool per_tensor;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& name : compressor_names()) {
    all.push_back({name, false});
    all.push_back({name, true});
  }
  return all;
}

std::vector<float> random_floats(Random& random, std::size_t size) {
  std::vector<float> x(size);
  for (float& value : x) value = static_cast<float>(random.normal());
  return x;
}

bool ascending(const std::vector<std::uint32_t>& indices) {
  return std::ranges::adjacent_find(indices, std::ranges::greater_equal{}) == indices.end();
}

class Compressors : public ::testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Compressor> make(const Grouping& tensors) const {
    auto made = make_compressor(GetParam().name, {.per_tensor = GetParam().per_tensor}, tensors, kernels());
    EXPECT_TRUE(made);
    return std::move(*made);
  }
  // Dense refuses a grant below the dimension; everything else takes any.
  bool takes(std::uint32_t k, std::uint32_t dimension) const { return GetParam().name != "dense" || k >= dimension; }
};

TEST_P(Compressors, KnowsItsName) { EXPECT_EQ(make({{4}})->name(), GetParam().name); }

TEST_P(Compressors, NothingOfNothing) {
  Selection out;
  ASSERT_TRUE(make({})->select({}, {}, {}, MemoryKind::residual, 0, out));
  EXPECT_TRUE(out.indices.empty());
  ASSERT_TRUE(make({{0, 0}})->select({}, {}, {}, MemoryKind::none, 7, out));
  EXPECT_TRUE(out.indices.empty());
}

TEST_P(Compressors, SelectionIsSortedBoundedAndOfTheCandidate) {
  EXPECT_TRUE(rc::check("selection", [&] {
    Random random(*rc::gen::arbitrary<std::uint64_t>(), Purpose::test);
    const Grouping tensors = testing::random_grouping(random, 300);
    const auto d = std::accumulate(tensors.sizes.begin(), tensors.sizes.end(), 0U);
    const auto compressor = make(tensors);
    for (const MemoryKind memory : {MemoryKind::none, MemoryKind::residual, MemoryKind::tracked}) {
      for (const std::uint32_t k : {0U, 1U, d / 10, d, d + 5}) {
        const auto update = random_floats(random, d);
        const auto held = random_floats(random, d);
        auto candidate = held;
        Selection out;
        const bool tracked = memory == MemoryKind::tracked;
        const auto status =
            compressor->select(update, tracked ? std::span(held) : std::span<const float>(), candidate, memory, k, out);
        RC_ASSERT(status.has_value() == takes(k, d));
        if (!status) {
          RC_ASSERT(candidate == held);
          continue;
        }
        RC_ASSERT(out.indices.size() == std::min(k, d));
        RC_ASSERT(ascending(out.indices));
        double norm = 0.0;
        for (std::size_t i = 0; i < d; ++i) {
          const float expected = memory == MemoryKind::none ? update[i]
                                 : tracked                  ? update[i] - held[i]
                                                            : held[i] + update[i];
          RC_ASSERT(candidate[i] == expected);
          norm += static_cast<double>(expected) * static_cast<double>(expected);
        }
        RC_ASSERT(std::fabs(norm - out.squared_norm) <= 1e-9 * norm);
        for (std::size_t j = 0; j < out.indices.size(); ++j) {
          RC_ASSERT(out.values[j] == candidate[out.indices[j]]);
          RC_ASSERT(std::fabs(out.values[j]) >= out.threshold);
        }
      }
    }
  }));
}

TEST_P(Compressors, NonFiniteUpdatesAreAnErrorThatNamesTheCoordinateAndSparesTheResidual) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const float largest = std::numeric_limits<float>::max();
  for (const MemoryKind memory : {MemoryKind::none, MemoryKind::residual, MemoryKind::tracked}) {
    for (const float bad : {nan, infinity, -infinity, largest}) {
      if (memory == MemoryKind::none && bad == largest) continue;  // alone it is finite
      std::vector<float> update(30, 1.0F);
      std::vector<float> residual(30, 0.5F);
      std::vector<float> held(memory == MemoryKind::tracked ? 30 : 0, 0.5F);
      update[17] = update[23] = bad;
      residual[17] = largest;
      if (!held.empty()) held[17] = -largest;
      const auto before = residual;
      Selection out;
      const auto status = make({{10, 20}})->select(update, held, residual, memory, 30, out);
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code(), ErrorCode::bad_input);
      EXPECT_THAT(status.error().message(), ::testing::HasSubstr("coordinate 17 "));
      EXPECT_EQ(residual, before);
    }
  }
}

// Over rounds: what is left plus what was sent is what was there plus the update, bit for bit, put back or not.
TEST_P(Compressors, MassIsConserved) {
  EXPECT_TRUE(rc::check("mass", [&] {
    Random random(*rc::gen::arbitrary<std::uint64_t>(), Purpose::test);
    const Grouping tensors = testing::random_grouping(random, 200);
    const auto d = std::accumulate(tensors.sizes.begin(), tensors.sizes.end(), 0U);
    const auto compressor = make(tensors);
    const float clip = *rc::gen::element(0x1p-3F, 1.0F, 0x1p10F);
    const auto format = static_cast<ValueFormat>(random.below(3));
    DeviceMemory memory(MemoryKind::residual, d);
    for (int round = 0; round < 8; ++round) {
      const auto update = random_floats(random, d);
      std::vector<float> expected(memory.state().begin(), memory.state().end());
      for (std::size_t i = 0; i < d; ++i) expected[i] += update[i];
      const std::uint32_t k = takes(d / 7, d) ? d / 7 : d;
      Selection out;
      RC_ASSERT(compressor->select(update, {}, memory.state(), MemoryKind::residual, k, out).has_value());
      const SparseVector selected = {.dimension = d, .indices = out.indices, .values = out.values};
      const auto payload = encode_payload(selected, tensors, format, clip);
      RC_ASSERT(memory.begin({.dimension = d, .indices = out.indices, .values = payload.sent}).has_value());
      std::vector<float> together(memory.state().begin(), memory.state().end());
      for (std::size_t j = 0; j < out.indices.size(); ++j) together[out.indices[j]] += payload.sent[j];
      RC_ASSERT(together == expected);
      const bool included = random.below(2) == 0;
      memory.settle(included ? Outcome::included : Outcome::late);
      if (!included) RC_ASSERT(std::ranges::equal(memory.state(), expected));
    }
  }));
}

INSTANTIATE_TEST_SUITE_P(Table, Compressors, ::testing::ValuesIn(cases()), [](const auto& info) {
  return info.param.name + (info.param.per_tensor ? "_per_tensor" : "_whole");
});

TEST(TopK, TakesTheLargestOfTheWholeModelOrOfEveryTensor) {
  const std::vector<float> update = {9.0F, 8.0F, 7.0F, 6.0F, 1.0F, -2.0F};
  const Grouping tensors{{4, 2}};
  std::vector<float> candidate(6);
  Selection out;
  const auto whole = make_compressor("topk", {}, tensors, kernels());
  ASSERT_TRUE((*whole)->select(update, {}, candidate, MemoryKind::none, 3, out));
  EXPECT_EQ(out.indices, (std::vector<std::uint32_t>{0, 1, 2}));
  const auto per_tensor = make_compressor("topk", {.per_tensor = true}, tensors, kernels());
  ASSERT_TRUE((*per_tensor)->select(update, {}, candidate, MemoryKind::none, 3, out));
  EXPECT_EQ(out.indices, (std::vector<std::uint32_t>{0, 1, 5}));
  EXPECT_EQ(out.threshold, 2.0F);
}

TEST(Compressors, DenseRefusesASmallerGrant) {
  std::vector<float> update(5, 1.0F);
  std::vector<float> candidate(5);
  Selection out;
  const auto dense = make_compressor("dense", {}, {{5}}, kernels());
  const auto status = (*dense)->select(update, {}, candidate, MemoryKind::none, 4, out);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message(), ::testing::HasSubstr("all 5 entries, but the plan grants 4"));
}

TEST(Compressors, UnknownNameListsTheCandidates) {
  const auto made = make_compressor("top-k", {}, {{1}}, kernels());
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message(), ::testing::HasSubstr("dense and topk"));
}

TEST(ShareOut, AddsUpAndGivesEveryTensorItsPart) {
  EXPECT_TRUE(rc::check("shares", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>(), Purpose::test);
    const Grouping tensors = testing::random_grouping(random, 5'000);
    const auto d = std::accumulate(tensors.sizes.begin(), tensors.sizes.end(), 0U);
    const std::uint32_t k = random.below(d + 10);
    const auto shares = share_out(k, tensors.sizes);
    RC_ASSERT(std::accumulate(shares.begin(), shares.end(), 0U) == std::min(k, d));
    const auto filled = static_cast<std::uint32_t>(std::ranges::count_if(tensors.sizes, [](auto s) { return s > 0; }));
    for (std::size_t t = 0; t < shares.size(); ++t) {
      const double exact = d == 0 ? 0.0 : static_cast<double>(k) * tensors.sizes[t] / d;
      RC_ASSERT(shares[t] <= tensors.sizes[t]);
      if (k >= filled && tensors.sizes[t] > 0) RC_ASSERT(shares[t] >= 1U);
      RC_ASSERT(std::fabs(shares[t] - std::min(exact, 1.0 * tensors.sizes[t])) <= 1.0 + filled);
    }
  }));
}

TEST(ShareOut, FewEntriesGoToTheLargestTensors) {
  const std::vector<std::uint32_t> sizes = {5, 0, 100, 100, 7};
  EXPECT_EQ(share_out(2, sizes), (std::vector<std::uint32_t>{0, 0, 1, 1, 0}));
  EXPECT_EQ(share_out(3, sizes), (std::vector<std::uint32_t>{0, 0, 1, 1, 1}));
  EXPECT_EQ(share_out(0, sizes), (std::vector<std::uint32_t>{0, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace gleaner
