// The CUDA kernels on the emulation against the scalar reference, bit for bit, in several orders of blocks and threads.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "common/random.hpp"
#include "kernels/cuda/emulation/driver.hpp"
#include "kernels/cuda/host_table.hpp"
#include "tests/kernels/inputs.hpp"

namespace gleaner {
namespace {

// One of the seeds of the emulation runs behind the table at a time.
struct Emulated {
  static cuda::SharedEngine& shared() { return *current; }
  static const KernelTable& after_failure(const Error& error) {
    ADD_FAILURE() << error.message();
    return **kernels_for(Backend::reference);
  }
  static inline cuda::SharedEngine* current = nullptr;
};
constexpr KernelTable kTable = cuda::HostTable<Emulated>::table("cuda_emulated");

const KernelTable& reference() { return **kernels_for(Backend::reference); }

std::vector<std::uint32_t> bits_of(std::span<const float> values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

void expect_equal(const Selection& expected, const Selection& actual) {
  ASSERT_EQ(expected.non_finite_index, actual.non_finite_index);
  EXPECT_EQ(expected.indices, actual.indices);
  EXPECT_EQ(bits_of(expected.values), bits_of(actual.values));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(expected.threshold), std::bit_cast<std::uint32_t>(actual.threshold));
  EXPECT_EQ(std::bit_cast<std::uint64_t>(expected.squared_norm), std::bit_cast<std::uint64_t>(actual.squared_norm));
}

// A selection that was used before: nothing of it may shine through.
Selection used() {
  return {.indices = {9, 9}, .values = {1.0F}, .threshold = 4.0F, .squared_norm = 3.0, .non_finite_index = 1};
}

class CudaKernels : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  CudaKernels() : driver_({.seed = GetParam(), .resident_blocks = 1 + static_cast<unsigned>(GetParam() % 4)}) {
    shared_.engine = cuda::Engine::create(driver_, {.budget_bytes = 1U << 28U, .staging_bytes = 10'000}).value();
    Emulated::current = &shared_;
  }
  ~CudaKernels() override { Emulated::current = nullptr; }

  cuda::emulation::EmulatedDriver driver_;
  cuda::SharedEngine shared_;
};

constexpr std::size_t kSeeds = 3;

// A third of the inputs, so that every input is run in one of the orders.
std::vector<testing::NamedVector> inputs_of(std::uint64_t seed, std::size_t size) {
  return testing::finite_vectors(size, seed + kSeeds * (size % testing::kOneIn), kSeeds * testing::kOneIn);
}

void select_equals_reference(std::uint64_t seed, std::size_t size, std::initializer_list<std::uint32_t> counts) {
  for (const auto& [name, x] : inputs_of(seed, size)) {
    for (const std::uint32_t k : counts) {
      SCOPED_TRACE(::testing::Message() << name << " size " << size << " k " << k);
      Selection expected;
      Selection actual = used();
      reference().select(x, k, expected);
      kTable.select(x, k, actual);
      expect_equal(expected, actual);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST_P(CudaKernels, SelectEqualsReference) {
  for (const std::uint32_t size : {0U, 1U, 17U, 256U})
    select_equals_reference(GetParam(), size, {0, 1, size / 2, 0xffffffffU});
  select_equals_reference(GetParam(), 4'095, {40, 4'094});
  select_equals_reference(GetParam(), 4'097, {17, 4'097});
  select_equals_reference(GetParam(), 12'001, {12, 1'201, 6'000});
}

TEST_P(CudaKernels, SelectEqualsReferenceOnALargeInput) {
  if (GetParam() % testing::kOneIn != 0) return;
  const auto x = testing::normal_vector(40'003, 9);
  for (const std::uint32_t k : {100U, 20'000U}) {
    Selection expected;
    Selection actual;
    reference().select(x, k, expected);
    kTable.select(x, k, actual);
    expect_equal(expected, actual);
  }
}

TEST_P(CudaKernels, FusedSelectionsEqualReference) {
  for (const std::uint32_t size : {0U, 5U, 9'003U}) {
    for (const auto& [name, x] : inputs_of(GetParam(), size)) {
      if (name == "largest" || name == "huge") continue;  // their sums overflow: see FirstNonFinite
      const std::vector<float> memory = testing::normal_vector(size, 3);
      const std::uint32_t k = size / 20 + 1;
      SCOPED_TRACE(::testing::Message() << name << " size " << size << " k " << k);
      Selection expected;
      Selection actual = used();
      auto expected_residual = memory;
      auto actual_residual = memory;
      reference().accumulate_and_select(x, expected_residual, k, expected);
      kTable.accumulate_and_select(x, actual_residual, k, actual);
      expect_equal(expected, actual);
      EXPECT_EQ(bits_of(expected_residual), bits_of(actual_residual));

      std::vector<float> expected_candidate(size);
      std::vector<float> actual_candidate(size, 5.0F);
      reference().subtract_and_select(x, memory, expected_candidate, k, expected);
      kTable.subtract_and_select(x, memory, actual_candidate, k, actual);
      expect_equal(expected, actual);
      EXPECT_EQ(bits_of(expected_candidate), bits_of(actual_candidate));
      if (HasFailure()) return;
    }
  }
}

TEST_P(CudaKernels, FirstNonFiniteIsReportedAndTheRestIsStillAccumulated) {
  const std::size_t size = 10'000;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::size_t number = 0;
  for (const float bad : {nan, -std::numeric_limits<float>::infinity()}) {
    for (const std::size_t at : {0U, 4095U, 4096U, 9'999U}) {
      if (number++ % testing::kOneIn != GetParam() % testing::kOneIn) continue;
      auto x = testing::normal_vector(size, 5);
      x[at] = bad;
      if (at + 1 < size) x[size - 1] = nan;
      auto residual = testing::normal_vector(size, 6);
      auto expected_residual = residual;
      Selection expected;
      Selection actual = used();
      reference().accumulate_and_select(x, expected_residual, 100, expected);
      kTable.accumulate_and_select(x, residual, 100, actual);
      EXPECT_EQ(actual.non_finite_index, at);
      expect_equal(expected, actual);
      for (std::size_t i = 0; i < size; ++i) {
        if (std::isfinite(expected_residual[i])) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(expected_residual[i]), std::bit_cast<std::uint32_t>(residual[i])) << i;
        } else {
          ASSERT_FALSE(std::isfinite(residual[i])) << i;
        }
      }
    }
  }
}

TEST_P(CudaKernels, SelectIntegersEqualsReference) {
  for (const std::uint32_t size : {0U, 1U, 100U, 4'200U}) {
    for (const auto& [name, x] : inputs_of(GetParam(), size)) {
      std::vector<std::int64_t> integers(size);
      for (std::size_t i = 0; i < size; ++i) {
        integers[i] = std::llrint(std::clamp(std::ldexp(static_cast<double>(x[i]), 40), -0x1p62, 0x1p62));
      }
      if (size > 50) {
        integers[50] = std::numeric_limits<std::int64_t>::min();
        integers[7] = std::numeric_limits<std::int64_t>::max();
      }
      for (const std::uint32_t k : {size / 100, size / 2, size < 200 ? 0xffffffffU : 7U}) {
        SCOPED_TRACE(::testing::Message() << name << " size " << size << " k " << k);
        std::vector<std::uint32_t> expected;
        std::vector<std::uint32_t> actual = {4, 4, 4};
        reference().select_integers(integers, k, expected);
        kTable.select_integers(integers, k, actual);
        EXPECT_EQ(expected, actual);
        if (HasFailure()) return;
      }
    }
  }
}

// Few distinct values and any k: ties at the threshold in all positions.
TEST_P(CudaKernels, TiesGoToTheLowerIndex) {
  for (std::uint64_t turn = 0; turn < 12 / testing::kOneIn; ++turn) {
    SCOPED_TRACE(turn);
    Random random(GetParam(), Purpose::test, turn);
    const std::uint32_t levels = 1 + random.below(4);
    std::vector<float> x(1 + random.below(9'000));
    for (float& value : x) {
      value = static_cast<float>(random.below(levels));
      if (random.below(2) == 0) value = -value;
    }
    const std::uint32_t k = random.below(static_cast<std::uint32_t>(x.size()) + 2);
    Selection expected;
    Selection actual;
    reference().select(x, k, expected);
    kTable.select(x, k, actual);
    expect_equal(expected, actual);
  }
}

TEST_P(CudaKernels, SumsEqualReference) {
  for (const auto& [name, values] : inputs_of(GetParam(), 1'500)) {
    for (const std::uint32_t weight : {0U, 977U, 0xffffffffU}) {
      for (const int exponent : {-98, -300, name == "normal" ? 24 : -99, name == "denormals" ? 150 : -101}) {
        SCOPED_TRACE(::testing::Message() << name << " weight " << weight << " 2^" << exponent);
        std::vector<std::uint32_t> indices;
        for (std::uint32_t i = 0; i < values.size(); ++i) indices.push_back(2 * i);
        std::vector<std::int64_t> expected(3'000, 5);
        auto actual = expected;
        reference().scatter_add(expected, indices, values, weight, exponent);
        kTable.scatter_add(actual, indices, values, weight, exponent);
        EXPECT_EQ(expected, actual);
        expected.resize(values.size());
        actual.resize(values.size());
        reference().dense_add(expected, values, weight, exponent);
        kTable.dense_add(actual, values, weight, exponent);
        ASSERT_EQ(expected, actual);
      }
    }
  }
}

TEST_P(CudaKernels, MovesPatchesAndHashesEqualReference) {
  for (const std::uint32_t size : {0U, 1U, 255U, 5'001U}) {
    auto expected = testing::normal_vector(size, 3);
    auto actual = expected;
    if (size > 0) expected[0] = actual[0] = -0.0F;
    std::vector<std::uint32_t> indices;
    for (std::uint32_t i = 0; i < size; i += 3) indices.push_back(i);
    const auto moved = testing::normal_vector(indices.size(), 4);
    reference().take_out(expected, indices, moved);
    kTable.take_out(actual, indices, moved);
    EXPECT_EQ(bits_of(expected), bits_of(actual));
    reference().put_back(expected, indices, moved);
    kTable.put_back(actual, indices, moved);
    EXPECT_EQ(bits_of(expected), bits_of(actual));

    const std::uint64_t hash = reference().model_hash(expected);
    EXPECT_EQ(kTable.model_hash(actual), hash);
    const std::uint64_t after = reference().apply_patch(expected, indices, moved, hash);
    EXPECT_EQ(kTable.apply_patch(actual, indices, moved, hash), after);
    EXPECT_EQ(bits_of(expected), bits_of(actual));
    EXPECT_EQ(kTable.model_hash(actual), after);
  }
}

TEST_P(CudaKernels, SegmentsEqualReference) {
  for (const auto& [name, x] : inputs_of(GetParam(), 6'000)) {
    SCOPED_TRACE(name);
    const std::vector<std::size_t> offsets = {0, 0, 700, 5'000, 5'001, 6'000};
    const std::vector<std::uint32_t> ks = {3, 700, 40, 1, 0};
    SegmentSelection expected;
    SegmentSelection actual = {.indices = {1}, .values = {2.0F}, .begins = {5}, .non_finite_index = 3};
    reference().select_segments(x, offsets, ks, expected);
    kTable.select_segments(x, offsets, ks, actual);
    EXPECT_EQ(expected.indices, actual.indices);
    EXPECT_EQ(bits_of(expected.values), bits_of(actual.values));
    EXPECT_EQ(expected.begins, actual.begins);
    EXPECT_EQ(bits_of(expected.thresholds), bits_of(actual.thresholds));
    EXPECT_EQ(expected.squared_norms, actual.squared_norms);
    EXPECT_EQ(expected.non_finite_index, actual.non_finite_index);
    auto bad = x;
    bad[4'321] = bad[5'500] = std::numeric_limits<float>::quiet_NaN();
    kTable.select_segments(bad, offsets, ks, actual);
    EXPECT_EQ(actual.non_finite_index, 4'321U);
    EXPECT_TRUE(actual.indices.empty() && actual.begins.empty() && actual.thresholds.empty());
  }
}

TEST_P(CudaKernels, RangesOfManyUpdatesGathersAndHashesEqualReference) {
  const auto values = testing::normal_vector(3'000, 8);
  std::vector<std::uint32_t> indices;
  for (std::uint32_t i = 0; i < values.size(); ++i) indices.push_back(3 * i + i % 3);
  const std::span<const float> all = values;
  const std::span<const std::uint32_t> places = indices;
  const std::vector<WeightedUpdate> updates = {
      {.indices = places, .values = all, .weight = 9},
      {},
      {.indices = places.subspan(40, 1'000), .values = all.first(1'000), .weight = 1'000'000}};
  std::vector<std::int64_t> expected(2'500, 4);
  auto actual = expected;
  reference().scatter_add_many(expected, 1'001, updates, 24);
  kTable.scatter_add_many(actual, 1'001, updates, 24);
  EXPECT_EQ(expected, actual);

  std::vector<float> gathered(500);
  const auto x = testing::normal_vector(9'100, 2);
  kTable.gather(x, places.subspan(7, 500), gathered);
  for (std::size_t j = 0; j < gathered.size(); ++j) ASSERT_EQ(gathered[j], x[indices[7 + j]]);
  EXPECT_EQ(kTable.range_hash(x, 0xfffffff0U), reference().range_hash(x, 0xfffffff0U));
}

INSTANTIATE_TEST_SUITE_P(Seeds, CudaKernels, ::testing::Range(std::uint64_t{0}, std::uint64_t{kSeeds}));

}  // namespace
}  // namespace gleaner
