// Every backend against the scalar reference, bit for bit.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>

#include "common/random.hpp"
#include "kernels/kernels.hpp"
#include "tests/kernels/inputs.hpp"

namespace gleaner {
namespace {

const KernelTable& reference() { return **kernels_for(Backend::reference); }

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
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

std::vector<std::uint32_t> counts_for(std::size_t size) {
  const auto d = static_cast<std::uint32_t>(size);
  if (d > 5'000) return {17, d / 100, d / 2, d - 1};  // the reference sorts, which takes its time
  std::vector<std::uint32_t> counts = {0, 1, 17, d / 100, d / 10, d / 2, d, d + 1, 0xffffffffU};
  if (d > 0) counts.push_back(d - 1);
  return counts;
}

class Kernels : public ::testing::TestWithParam<testing::Subject> {};

TEST_P(Kernels, SelectEqualsReference) {
  for (const std::size_t size : {0U, 1U, 2U, 15U, 16U, 17U, 4095U, 4097U, 12'001U}) {
    for (const auto& [name, x] : testing::finite_vectors(size, GetParam().number() + size)) {
      for (const std::uint32_t k : counts_for(size)) {
        SCOPED_TRACE(::testing::Message() << name << " size " << size << " k " << k);
        Selection expected;
        Selection actual = used();
        reference().select(x, k, expected);
        GetParam()->select(x, k, actual);
        expect_equal(expected, actual);
        if (HasFailure()) return;
      }
    }
  }
}

// Every length of a tail, from every alignment that a float can have.
TEST_P(Kernels, ShortAndMisalignedSpansEqualReference) {
  const auto memory = testing::normal_vector(200, 11);
  const auto update = testing::normal_vector(200, 12);
  for (std::size_t size = 0; size <= 70; ++size) {
    for (const std::size_t shift : {0U, 1U, 3U, 13U}) {
      const auto part = std::span(update).subspan(shift, size);
      for (const std::uint32_t k : {0U, 1U, 7U, static_cast<std::uint32_t>(size / 2), 70U}) {
        SCOPED_TRACE(::testing::Message() << "size " << size << " shift " << shift << " k " << k);
        auto expected_residual = memory;
        auto actual_residual = memory;
        Selection expected;
        Selection actual = used();
        reference().select(part, k, expected);
        GetParam()->select(part, k, actual);
        expect_equal(expected, actual);
        reference().accumulate_and_select(part, std::span(expected_residual).subspan(2 * shift, size), k, expected);
        GetParam()->accumulate_and_select(part, std::span(actual_residual).subspan(2 * shift, size), k, actual);
        expect_equal(expected, actual);
        EXPECT_EQ(bits_of(expected_residual), bits_of(actual_residual));
      }
      if (HasFailure()) return;
    }
  }
}

// Large enough for a sample, for hints that are right, too low and too high, and for several threads.
TEST_P(Kernels, SelectOnLargeInputsEqualsReferenceWhateverTheHintAndTheThreads) {
  const std::size_t size = 140'003;
  std::size_t calls = 0;
  const Parallel backwards = {.width = 3, .run = [&](std::size_t parts, const std::function<void(std::size_t)>& part) {
                                ++calls;
                                for (std::size_t i = parts; i-- > 0;) part(i);
                              }};
  for (const auto& [name, x] : testing::finite_vectors(size, GetParam().number() + size)) {
    for (const std::uint32_t k : {1'400U, 70'001U}) {
      Selection expected;
      reference().select(x, k, expected);
      for (const float factor : {0.0F, 1.0F, 0.25F, 4.0F}) {
        for (const Parallel* parallel : {static_cast<const Parallel*>(nullptr), &backwards}) {
          if (factor == 0.25F && parallel != nullptr) continue;
          SCOPED_TRACE(::testing::Message()
                       << name << " k " << k << " hint times " << factor << " threads " << (parallel != nullptr));
          Selection actual = used();
          actual.threshold_hint = expected.threshold * factor;
          actual.parallel = parallel;
          const float hint = actual.threshold_hint;
          GetParam()->select(x, k, actual);
          expect_equal(expected, actual);
          EXPECT_EQ(actual.threshold_hint, hint);
          EXPECT_EQ(actual.parallel, parallel);
        }
      }
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(calls, 0U);
}

TEST_P(Kernels, NonsensicalHintsDoNoHarm) {
  const auto x = testing::normal_vector(20'000, 9);
  Selection expected;
  reference().select(x, 200, expected);
  for (const float hint : {-1.0F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min()}) {
    Selection actual;
    actual.threshold_hint = hint;
    GetParam()->select(x, 200, actual);
    expect_equal(expected, actual);
  }
}

TEST_P(Kernels, FusedSelectionsEqualReference) {
  for (const std::size_t size : {0U, 5U, 4097U, 9'003U}) {
    for (const auto& [name, x] : testing::finite_vectors(size, GetParam().number() + size)) {
      if (name == "largest" || name == "huge") continue;  // their sums overflow: see FirstNonFinite
      const std::vector<float> memory = testing::normal_vector(size, 3);
      for (const std::uint32_t k : {std::uint32_t{0}, std::uint32_t{3}, static_cast<std::uint32_t>(size / 20 + 1),
                                    static_cast<std::uint32_t>(size)}) {
        SCOPED_TRACE(::testing::Message() << name << " size " << size << " k " << k);
        Selection expected;
        Selection actual = used();
        auto expected_residual = memory;
        auto actual_residual = memory;
        reference().accumulate_and_select(x, expected_residual, k, expected);
        GetParam()->accumulate_and_select(x, actual_residual, k, actual);
        expect_equal(expected, actual);
        EXPECT_EQ(bits_of(expected_residual), bits_of(actual_residual));

        std::vector<float> expected_candidate(size);
        std::vector<float> actual_candidate(size, 5.0F);
        reference().subtract_and_select(x, memory, expected_candidate, k, expected);
        GetParam()->subtract_and_select(x, memory, actual_candidate, k, actual);
        expect_equal(expected, actual);
        EXPECT_EQ(bits_of(expected_candidate), bits_of(actual_candidate));
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(Kernels, FirstNonFiniteIsReportedAndTheRestIsStillAccumulated) {
  const std::size_t size = 10'000;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {nan, -nan, infinity, -infinity}) {
    for (const std::size_t at : {0U, 1U, 4095U, 4096U, 9'999U}) {
      auto x = testing::normal_vector(size, 5);
      x[at] = bad;
      if (at + 1 < size) x[size - 1] = nan;
      Selection selection = used();
      GetParam()->select(x, 100, selection);
      EXPECT_EQ(selection.non_finite_index, at);

      auto residual = testing::normal_vector(size, 6);
      auto expected = residual;
      Selection reference_selection;
      reference().accumulate_and_select(x, expected, 100, reference_selection);
      GetParam()->accumulate_and_select(x, residual, 100, selection);
      EXPECT_EQ(selection.non_finite_index, at);
      for (std::size_t i = 0; i < size; ++i) {
        if (std::isfinite(expected[i])) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(expected[i]), std::bit_cast<std::uint32_t>(residual[i])) << i;
        } else {
          ASSERT_FALSE(std::isfinite(residual[i])) << i;
        }
      }
    }
  }
}

TEST_P(Kernels, SumsThatOverflowAreNonFinite) {
  std::vector<float> residual(100, 1.0F);
  std::vector<float> update(100, 1.0F);
  residual[40] = update[40] = std::numeric_limits<float>::max();
  Selection selection;
  GetParam()->accumulate_and_select(update, residual, 3, selection);
  EXPECT_EQ(selection.non_finite_index, 40U);
}

TEST_P(Kernels, SelectIntegersEqualsReference) {
  for (const std::size_t size : {0U, 1U, 100U, 4097U, 9'000U}) {
    for (const auto& [name, x] : testing::finite_vectors(size, GetParam().number() + size)) {
      std::vector<std::int64_t> integers(size);
      for (std::size_t i = 0; i < size; ++i) {
        integers[i] = std::llrint(std::clamp(std::ldexp(static_cast<double>(x[i]), 40), -0x1p62, 0x1p62));
      }
      if (size > 50) {
        integers[50] = std::numeric_limits<std::int64_t>::min();
        integers[7] = std::numeric_limits<std::int64_t>::max();
      }
      for (const std::uint32_t k : counts_for(size)) {
        SCOPED_TRACE(::testing::Message() << name << " size " << size << " k " << k);
        std::vector<std::uint32_t> expected;
        std::vector<std::uint32_t> actual = {4, 4, 4};
        reference().select_integers(integers, k, expected);
        GetParam()->select_integers(integers, k, actual);
        EXPECT_EQ(expected, actual);
        if (HasFailure()) return;
      }
    }
  }
}

// Few distinct values and every k: ties at the threshold in all positions.
TEST_P(Kernels, TiesGoToTheLowerIndex) {
  EXPECT_TRUE(rc::check("few distinct values", [&] {
    const auto levels = *rc::gen::inRange<std::uint32_t>(1, 5);
    const auto size = *rc::gen::inRange<std::uint32_t>(1, 12'000);
    Random random(*rc::gen::arbitrary<std::uint64_t>(), Purpose::test);
    const auto k = *rc::gen::inRange<std::uint32_t>(0, size + 2);
    std::vector<float> x(size);
    for (float& value : x) {
      value = static_cast<float>(random.below(levels));
      if (random.below(2) == 0) value = -value;
    }
    Selection expected;
    Selection actual;
    reference().select(x, k, expected);
    GetParam()->select(x, k, actual);
    RC_ASSERT(expected.indices == actual.indices);
    RC_ASSERT(bits_of(expected.values) == bits_of(actual.values));
  }));
}

INSTANTIATE_TEST_SUITE_P(Backends, Kernels, ::testing::ValuesIn(testing::subjects()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace gleaner
