// The engine on the emulation: rows of many sizes in one call, memory within its budget, a device that fails.

#include "kernels/cuda/engine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "common/random.hpp"
#include "kernels/cuda/emulation/driver.hpp"
#include "kernels/kernels.hpp"
#include "tests/kernels/inputs.hpp"

namespace gleaner::cuda {
namespace {

using emulation::EmulatedDevice;
using emulation::EmulatedDriver;
using ::testing::HasSubstr;

const KernelTable& reference() { return **kernels_for(Backend::reference); }

std::unique_ptr<Engine> engine_on(EmulatedDriver& driver, std::size_t budget_bytes = 1U << 28U) {
  return Engine::create(driver, {.budget_bytes = budget_bytes, .staging_bytes = 4'096}).value();
}

struct Batch {
  std::vector<std::uint32_t> sizes;
  std::vector<std::uint32_t> k;
  std::vector<float> x;
  std::vector<float> y;

  std::span<float> row(std::vector<float>& from, std::size_t r) const {
    return std::span(from).subspan(std::accumulate(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(r), 0U),
                                   sizes[r]);
  }
};

// Empty rows, rows of a tile more or less, rows that are taken whole, a row that is not finite, rows of equals.
Batch mixed_batch(std::uint64_t seed) {
  Random random(seed, Purpose::test);
  Batch batch;
  for (const std::uint32_t size : {0U, 1U, 700U, 4'096U, 4'097U, 0U, 9'001U, 2'000U, 5'000U, 3U, 0U}) {
    batch.sizes.push_back(size);
    batch.k.push_back(size / 3 > 0 ? random.below(size / 3) : 2);
  }
  batch.k[2] = 700;
  batch.k[6] = 0xffffffffU;
  batch.x = testing::normal_vector(std::accumulate(batch.sizes.begin(), batch.sizes.end(), 0U), seed);
  batch.y = testing::normal_vector(batch.x.size(), seed + 1);
  batch.row(batch.x, 7)[1'111] = std::numeric_limits<float>::infinity();
  std::ranges::fill(batch.row(batch.x, 8), 0.0F);
  std::ranges::fill(batch.row(batch.y, 8), -0.5F);
  return batch;
}

std::vector<std::uint32_t> bits_of(std::span<const float> values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

void expect_row(Engine& engine, const Rows& rows, const DeviceSelection& selection, std::uint32_t row,
                const Selection& expected) {
  RowReport report;
  ASSERT_TRUE(engine.download(selection.reports, std::span(&report, 1), row));
  std::vector<std::uint32_t> indices(report.selected);
  std::vector<float> values(report.selected);
  ASSERT_TRUE(engine.download(selection.indices, std::span(indices), rows.first_output(row)));
  ASSERT_TRUE(engine.download(selection.values, std::span(values), rows.first_output(row)));
  EXPECT_EQ(indices, expected.indices);
  EXPECT_EQ(bits_of(values), bits_of(expected.values));
  EXPECT_EQ(report.threshold_bits, std::bit_cast<std::uint32_t>(expected.threshold));
  EXPECT_EQ(std::bit_cast<std::uint64_t>(report.squared_norm), std::bit_cast<std::uint64_t>(expected.squared_norm));
  EXPECT_EQ(report.non_finite == kNoIndex ? Selection::kAllFinite : report.non_finite, expected.non_finite_index);
}

class Engines : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(Engines, RowsOfOneCallEqualCallsOfOneRow) {
  EmulatedDriver driver({.seed = GetParam(), .resident_blocks = 1 + static_cast<unsigned>(GetParam())});
  const auto engine = engine_on(driver);
  Batch batch = mixed_batch(GetParam());
  const auto rows = engine->rows(batch.sizes, batch.k).value();
  const auto update = engine->uploaded(std::span<const float>(batch.x)).value();
  const auto residual = engine->uploaded(std::span<const float>(batch.y)).value();
  DeviceSelection selection;
  ASSERT_TRUE(engine->accumulate_and_select(rows, update, residual, selection));
  for (std::uint32_t row = 0; row < rows.count(); ++row) {
    SCOPED_TRACE(row);
    Selection expected;
    reference().accumulate_and_select(batch.row(batch.x, row), batch.row(batch.y, row), batch.k[row], expected);
    expect_row(*engine, rows, selection, row, expected);
  }

  // What was selected goes out, comes back, and is added up; the buffers of the selection serve again.
  const auto before = batch.y;
  std::vector<float> after(batch.y.size());
  ASSERT_TRUE(engine->take_out(rows, selection, selection.values, residual));
  ASSERT_TRUE(engine->download(residual, std::span(after)));
  std::vector<std::int64_t> expected_sum(9'001);
  std::vector<std::uint32_t> weights(rows.count());
  for (std::uint32_t row = 0; row < rows.count(); ++row) {
    Selection taken;
    reference().select(batch.row(batch.y, row), batch.k[row], taken);
    reference().take_out(batch.row(batch.y, row), taken.indices, taken.values);
    weights[row] = row * 1'000;
    reference().scatter_add(expected_sum, taken.indices, taken.values, weights[row], 20);
  }
  EXPECT_EQ(bits_of(after), bits_of(batch.y));
  ASSERT_TRUE(engine->put_back(rows, selection, selection.values, residual));
  ASSERT_TRUE(engine->download(residual, std::span(after)));
  EXPECT_EQ(bits_of(std::span(after).first(700)), bits_of(std::span(before).first(700)));

  const auto sum = engine->uploaded(std::span<const std::int64_t>(std::vector<std::int64_t>(9'001))).value();
  const auto device_weights = engine->uploaded(std::span<const std::uint32_t>(weights)).value();
  ASSERT_TRUE(engine->scatter_selected(rows, selection, selection.values, device_weights, 20, sum));
  std::vector<std::int64_t> actual_sum(9'001);
  ASSERT_TRUE(engine->download(sum, std::span(actual_sum)));
  EXPECT_EQ(actual_sum, expected_sum);
}

// What is sent is coarser than what was selected, so that the error of coding stays in the residual.
TEST_P(Engines, TheErrorOfCodingStaysInTheResidual) {
  EmulatedDriver driver({.seed = GetParam()});
  const auto engine = engine_on(driver);
  Batch batch = mixed_batch(GetParam());
  const auto rows = engine->rows(batch.sizes, batch.k).value();
  const auto update = engine->uploaded(std::span<const float>(batch.x)).value();
  const auto residual = engine->uploaded(std::span<const float>(batch.y)).value();
  DeviceSelection selection;
  ASSERT_TRUE(engine->accumulate_and_select(rows, update, residual, selection));
  std::vector<float> sent(rows.outputs());
  ASSERT_TRUE(engine->download(selection.values, std::span(sent)));
  const auto coarse = [](float value) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xffff0000U);
  };
  for (float& value : sent) value = coarse(value);
  const auto device_sent = engine->uploaded(std::span<const float>(sent)).value();
  ASSERT_TRUE(engine->take_out(rows, selection, device_sent, residual));
  std::vector<float> after(batch.y.size());
  ASSERT_TRUE(engine->download(residual, std::span(after)));

  float kept = 0.0F;
  for (std::uint32_t row = 0; row < rows.count(); ++row) {
    Selection taken;
    const auto expected = batch.row(batch.y, row);
    reference().accumulate_and_select(batch.row(batch.x, row), expected, batch.k[row], taken);
    std::vector<float> values;
    for (const float value : taken.values) values.push_back(coarse(value));
    reference().take_out(expected, taken.indices, values);
    for (const std::uint32_t index : taken.indices) kept = std::max(kept, std::fabs(expected[index]));
  }
  EXPECT_GT(kept, 0.0F);
  EXPECT_EQ(bits_of(after), bits_of(batch.y));
}

TEST_P(Engines, ManyUpdatesAddInOneLaunch) {
  EmulatedDriver driver({.seed = GetParam()});
  const auto engine = engine_on(driver);
  Random random(GetParam(), Purpose::test);
  std::vector<std::uint64_t> first = {0};
  std::vector<std::uint32_t> weights;
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  std::vector<std::int64_t> expected(500, -3);
  const auto sum = engine->uploaded(std::span<const std::int64_t>(expected)).value();
  for (std::uint32_t update = 0; update < 40; ++update) {
    const std::size_t begin = indices.size();
    for (std::uint32_t i = 0; i < 500 && update % 7 != 3; i += 1 + random.below(40)) {
      indices.push_back(i);
      values.push_back(static_cast<float>(random.normal()));
    }
    weights.push_back(random.below(100'000));
    first.push_back(indices.size());
    reference().scatter_add(expected, std::span(indices).subspan(begin), std::span(values).subspan(begin),
                            weights.back(), 30);
  }
  const auto updates =
      engine->updates({.first = first, .weights = weights, .indices = indices, .values = values}).value();
  const auto launches = driver.launch_count();
  ASSERT_TRUE(engine->scatter_add(updates, 30, sum));
  EXPECT_EQ(driver.launch_count(), launches + 1);
  std::vector<std::int64_t> actual(500);
  ASSERT_TRUE(engine->download(sum, std::span(actual)));
  EXPECT_EQ(actual, expected);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Engines, ::testing::Values(0, 1, 2));

TEST(Engine, LaunchesAndAllocationsOfASelectionDoNotGrowWithItsRows) {
  const auto cost = [](std::size_t rows_count) {
    EmulatedDriver driver({});
    const auto engine = engine_on(driver);
    const std::vector<std::uint32_t> sizes(rows_count, 50);
    const std::vector<std::uint32_t> k(rows_count, 5);
    const auto rows = engine->rows(sizes, k).value();
    const auto x = engine->uploaded(std::span<const float>(testing::normal_vector(rows_count * 50, 1))).value();
    DeviceSelection selection;
    EXPECT_TRUE(engine->select(rows, x, selection));
    const auto held = engine->pool().bytes_held();
    const auto launches = driver.launch_count();
    EXPECT_TRUE(engine->select(rows, x, selection));
    EXPECT_EQ(engine->pool().bytes_held(), held);
    return driver.launch_count() - launches;
  };
  EXPECT_EQ(cost(1), cost(20));
}

TEST(Engine, AGraphRunsWhenItIsStartedAndAsOftenAsThat) {
  EmulatedDriver driver({});
  const auto engine = engine_on(driver);
  std::vector<float> values = {1.0F, 2.0F, 3.0F};
  const auto from = engine->uploaded(std::span<const float>(values)).value();
  const auto to = engine->allocate<float>(2).value();
  const auto indices = engine->uploaded(std::span<const std::uint32_t>(std::vector<std::uint32_t>{2, 0})).value();
  const auto launches = driver.launch_count();
  const auto graph = engine->capture([&] { return engine->gather(from, indices, to); });
  ASSERT_TRUE(graph);
  EXPECT_EQ(driver.launch_count(), launches);
  std::vector<float> got(2);
  for (const float third : {3.0F, 7.0F}) {
    values[2] = third;
    ASSERT_TRUE(engine->upload(std::span<const float>(values), from));
    ASSERT_TRUE(engine->done(driver.launch_graph(graph->get(), engine->stream()), "starting a graph"));
    ASSERT_TRUE(engine->download(to, std::span(got)));
    EXPECT_EQ(got, (std::vector<float>{third, 1.0F}));
  }
  EXPECT_EQ(driver.launch_count(), launches + 2);
}

TEST(Engine, NothingIsAllocatedInAGraph) {
  EmulatedDriver driver({});
  const auto engine = engine_on(driver);
  const auto graph = engine->capture([&]() -> Status {
    GLEANER_ASSIGN(const auto memory, engine->allocate<float>(50'000));
    return {};
  });
  ASSERT_FALSE(graph);
  EXPECT_THAT(graph.error().message(), HasSubstr("captured"));
}

TEST(Engine, NoRowsAndEmptyBuffersAreFine) {
  EmulatedDriver driver({});
  const auto engine = engine_on(driver);
  const auto rows = engine->rows({}, {}).value();
  const auto x = engine->allocate<float>(0).value();
  DeviceSelection selection;
  EXPECT_TRUE(engine->select(rows, x, selection));
  EXPECT_TRUE(engine->take_out(rows, selection, x, x));
}

TEST(Engine, BuffersThatAreTooShortAreErrors) {
  EmulatedDriver driver({});
  const auto engine = engine_on(driver);
  const std::vector<std::uint32_t> sizes = {10};
  const std::vector<std::uint32_t> k = {3};
  const auto rows = engine->rows(sizes, k).value();
  const auto few = engine->allocate<float>(9).value();
  const auto many = engine->allocate<float>(10).value();
  DeviceSelection selection;
  EXPECT_FALSE(engine->select(rows, few, selection));
  EXPECT_FALSE(engine->accumulate_and_select(rows, many, few, selection));
  EXPECT_FALSE(engine->take_out(rows, selection, many, many));
  ASSERT_TRUE(engine->select(rows, many, selection));
  const auto weights = engine->uploaded(std::span<const std::uint32_t>(k)).value();
  EXPECT_FALSE(engine->scatter_selected(rows, selection, selection.values, weights, 9,
                                        engine->allocate<std::int64_t>(9).value()));
  EXPECT_FALSE(engine->rows(sizes, {}));
  const std::vector<std::uint64_t> first = {0, 2};
  const std::vector<std::uint32_t> indices = {4};
  EXPECT_FALSE(engine->updates({.first = first, .weights = k, .indices = indices, .values = {}}));
  EXPECT_FALSE(engine->dense_add(few, 1, 5'000, engine->allocate<std::int64_t>(9).value()));
  EXPECT_TRUE(engine->wait());
}

TEST(Engine, OutOfMemoryNamesBudgetAndRequestAndTheEngineGoesOn) {
  EmulatedDriver driver({.memory_bytes = 1'000'000});
  const auto engine = engine_on(driver, 600'000);
  const auto whole = engine->allocate<float>(1'000'000);
  ASSERT_FALSE(whole);
  EXPECT_THAT(whole.error().message(), HasSubstr("4000000"));
  EXPECT_THAT(whole.error().message(), HasSubstr("600000"));
  const auto most = engine->allocate<float>(100'000).value();
  const auto rest = engine->allocate<float>(90'000);
  ASSERT_FALSE(rest);
  EXPECT_THAT(rest.error().message(), HasSubstr("360000"));
  EXPECT_THAT(rest.error().message(), HasSubstr("600000"));
  EXPECT_TRUE(engine->allocate<float>(1'000));
  EXPECT_TRUE(engine->wait());

  const auto larger = engine_on(driver, 5'000'000);
  const auto device = larger->allocate<float>(300'000);
  ASSERT_FALSE(device);
  EXPECT_THAT(device.error().message(), HasSubstr("no room"));
}

TEST(Engine, MemoryComesBack) {
  EmulatedDriver driver({});
  {
    const auto engine = engine_on(driver, 1'000'000);
    for (int i = 0; i < 50; ++i) {
      const auto buffer = engine->allocate<float>(static_cast<std::size_t>(100'000 + 1'000 * i));
      ASSERT_TRUE(buffer);
    }
    EXPECT_EQ(engine->pool().bytes_in_use(), 0U);
    EXPECT_LE(driver.allocated_bytes(), 1'000'000U);
  }
  EXPECT_EQ(driver.allocated_bytes(), 0U);
  EXPECT_EQ(driver.open_handles(), 0U);
}

// Wherever it happens: an error, the same one from then on, and nothing is left behind.
TEST(Engine, ADeviceThatDisappearsIsAnErrorAtEveryStep) {
  const auto x = testing::normal_vector(500, 1);
  bool finished = false;
  for (std::uint64_t calls = 0; !finished; ++calls) {
    ASSERT_LT(calls, 500U);
    EmulatedDriver driver({.calls_until_lost = calls});
    const auto work = [&]() -> Status {
      GLEANER_ASSIGN(const auto engine, Engine::create(driver, {.budget_bytes = 1U << 24U, .staging_bytes = 1'024}));
      const std::vector<std::uint32_t> sizes = {500};
      const std::vector<std::uint32_t> k = {5};
      const auto inside = [&]() -> Status {
        GLEANER_ASSIGN(const auto rows, engine->rows(sizes, k));
        GLEANER_ASSIGN(const auto update, engine->uploaded(std::span<const float>(x)));
        GLEANER_ASSIGN(const auto residual, engine->uploaded(std::span<const float>(x)));
        DeviceSelection selection;
        GLEANER_TRY(engine->accumulate_and_select(rows, update, residual, selection));
        GLEANER_TRY(engine->take_out(rows, selection, selection.values, residual));
        return engine->wait();
      };
      const Status status = inside();
      if (!status) {
        EXPECT_EQ(engine->wait().error().message(), status.error().message());
        EXPECT_EQ(engine->allocate<float>(1).error().message(), status.error().message());
      }
      return status;
    };
    const Status status = work();
    finished = status.has_value();
    if (!finished) {
      EXPECT_THAT(status.error().message(), HasSubstr("the device is lost"));
      EXPECT_EQ(status.error().code(), ErrorCode::fatal);
    }
    EXPECT_EQ(driver.allocated_bytes(), 0U);
    EXPECT_EQ(driver.open_handles(), 0U);
  }
}

}  // namespace
}  // namespace gleaner::cuda
