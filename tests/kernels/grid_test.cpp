// take_out, put_back and the sums on the grid.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/random.hpp"
#include "kernels/kernels.hpp"
#include "tests/kernels/inputs.hpp"

namespace gleaner {
namespace {

class GridKernels : public ::testing::TestWithParam<testing::Subject> {};

TEST_P(GridKernels, ScatterAddIsRoundedLdexp) {
  for (const auto& [name, values] : testing::finite_vectors(3'000, GetParam().number())) {
    for (const std::uint32_t weight : {0U, 1U, 3U, 977U, 1'000'000U, 0xffffffffU}) {
      // The largest product is below 2^(128 + 32), so these exponents keep the sums within 62 bits.
      const int exponents[] = {-98, -140, -300, name == "normal" ? 24 : -99, name == "denormals" ? 150 : -101};
      for (const int exponent : exponents) {
        std::vector<std::uint32_t> indices;
        std::vector<std::int64_t> sum(6'000, 5);
        std::vector<std::int64_t> dense(values.size(), -7);
        for (std::uint32_t i = 0; i < values.size(); ++i) indices.push_back(2 * i);
        GetParam()->scatter_add(sum, indices, values, weight, exponent);
        GetParam()->dense_add(dense, values, weight, exponent);
        for (std::size_t i = 0; i < values.size(); ++i) {
          const double product = static_cast<double>(values[i]) * weight;
          const std::int64_t exact = std::llrint(std::ldexp(product, exponent));
          ASSERT_EQ(sum[2 * i], 5 + exact) << name << " " << values[i] << " weight " << weight << " 2^" << exponent;
          ASSERT_EQ(dense[i], -7 + exact);
          ASSERT_EQ(sum[2 * i + 1], 5);
        }
      }
    }
  }
}

TEST_P(GridKernels, HalvesRoundToEven) {
  std::vector<std::int64_t> sum(6);
  const std::vector<std::uint32_t> indices = {0, 1, 2, 3, 4, 5};
  const std::vector<float> values = {0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F};
  GetParam()->scatter_add(sum, indices, values, 1, 0);
  EXPECT_EQ(sum, (std::vector<std::int64_t>{0, 2, 2, 0, -2, -2}));
}

TEST_P(GridKernels, ScatterAddsInAnyOrderGiveTheSameSum) {
  EXPECT_TRUE(rc::check("order of devices", [&] {
    Random random(*rc::gen::arbitrary<std::uint64_t>(), Purpose::test);
    std::vector<std::int64_t> forward(500);
    std::vector<std::int64_t> backward(500);
    struct Device {
      std::vector<std::uint32_t> indices;
      std::vector<float> values;
      std::uint32_t weight = 0;
    };
    std::vector<Device> devices(7);
    for (Device& device : devices) {
      device.weight = random.below(100'000);
      for (std::uint32_t i = 0; i < 500; ++i) {
        if (random.below(3) > 0) continue;
        device.indices.push_back(i);
        device.values.push_back(static_cast<float>(random.normal()));
      }
    }
    const auto add = [&](std::vector<std::int64_t>& sum, const Device& device) {
      GetParam()->scatter_add(sum, device.indices, device.values, device.weight, 30);
    };
    for (std::size_t m = 0; m < devices.size(); ++m) {
      add(forward, devices[m]);
      add(backward, devices[devices.size() - 1 - m]);
    }
    RC_ASSERT(forward == backward);
  }));
}

TEST_P(GridKernels, DenseSumsRoundLikeLlrintAtEveryScale) {
  Random random(5, Purpose::test);
  std::vector<float> values;
  for (int exponent = -30; exponent < 62; ++exponent) {
    for (int i = 0; i < 60; ++i) {
      const auto mantissa = 1.0F + static_cast<float>(random.below(1U << 23)) * 0x1p-23F;
      values.push_back(std::ldexp(i % 2 == 0 ? mantissa : -mantissa, exponent));
      values.push_back(static_cast<float>(random.below(1U << 24)) - 0x1p23F + 0.5F);
    }
  }
  for (const std::uint32_t weight : {1U, 3U}) {
    for (const int exponent : {0, -1, -2, -24}) {
      std::vector<std::int64_t> sum(values.size(), 1);
      GetParam()->dense_add(sum, values, weight, exponent);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double product = std::ldexp(static_cast<double>(values[i]) * weight, exponent);
        if (std::abs(product) > 0x1p62) continue;
        ASSERT_EQ(sum[i], 1 + std::llrint(product)) << values[i] << " times " << weight << " 2^" << exponent;
      }
    }
  }
}

TEST_P(GridKernels, ManyUpdatesAtOnceAreThoseOneByOne) {
  constexpr std::uint32_t kDimension = 200'001;  // several blocks and a part of one
  Random random(6, Purpose::test);
  std::vector<std::vector<std::uint32_t>> indices;
  std::vector<std::vector<float>> values;
  for (const std::uint32_t spacing : {1U, 3U, 1'000U, 300'000U, 70'000U, 20U}) {
    auto& of_update = indices.emplace_back();
    for (std::uint32_t i = random.below(spacing); i < kDimension; i += 1 + random.below(spacing))
      of_update.push_back(i);
    values.push_back(testing::normal_vector(of_update.size(), spacing));
  }
  indices.emplace_back();
  values.emplace_back();
  std::vector<WeightedUpdate> updates;
  std::vector<std::int64_t> expected(kDimension, 9);
  const KernelTable& reference = **kernels_for(Backend::reference);
  for (std::size_t u = 0; u < indices.size(); ++u) {
    updates.push_back({indices[u], values[u], static_cast<std::uint32_t>(3 * u + 1)});
    reference.scatter_add(expected, indices[u], values[u], updates[u].weight, 30);
  }
  std::vector<std::int64_t> whole(kDimension, 9);
  GetParam()->scatter_add_many(whole, 0, updates, 30);
  EXPECT_EQ(whole, expected);
  for (const std::uint32_t cut : {0U, 1U, 65'536U, 65'537U, 150'000U, kDimension}) {
    std::vector<std::int64_t> ranges(kDimension, 9);
    GetParam()->scatter_add_many(std::span(ranges).first(cut), 0, updates, 30);
    GetParam()->scatter_add_many(std::span(ranges).subspan(cut), cut, updates, 30);
    EXPECT_EQ(ranges, expected) << cut;
    std::vector<std::int64_t> by_reference(kDimension - cut, 9);
    reference.scatter_add_many(by_reference, cut, updates, 30);
    EXPECT_TRUE(std::ranges::equal(by_reference, std::span(expected).subspan(cut)));
  }
}

TEST_P(GridKernels, GatherReadsWhereItIsTold) {
  const auto x = testing::normal_vector(1'000, 8);
  std::vector<std::uint32_t> indices;
  for (std::uint32_t i = 3; i < 1'000; i += 7) indices.push_back(i);
  std::vector<float> values(indices.size());
  GetParam()->gather(x, indices, values);
  for (std::size_t j = 0; j < indices.size(); ++j) ASSERT_EQ(values[j], x[indices[j]]);
}

TEST_P(GridKernels, TakeOutAndPutBackAreInverseWhereExact) {
  auto residual = testing::normal_vector(1'000, 1);
  const auto before = residual;
  std::vector<std::uint32_t> indices;
  std::vector<float> sent;
  for (std::uint32_t i = 0; i < 1'000; i += 3) {
    indices.push_back(i);
    // Eight leading bits of the value: the difference is exact.
    sent.push_back(std::bit_cast<float>(std::bit_cast<std::uint32_t>(residual[i]) & 0xffff0000U));
  }
  GetParam()->take_out(residual, indices, sent);
  for (std::size_t j = 0; j < indices.size(); ++j) ASSERT_EQ(residual[indices[j]], before[indices[j]] - sent[j]);
  EXPECT_EQ(residual[1], before[1]);
  GetParam()->put_back(residual, indices, sent);
  EXPECT_EQ(residual, before);
}

INSTANTIATE_TEST_SUITE_P(Backends, GridKernels, ::testing::ValuesIn(testing::subjects()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace gleaner
