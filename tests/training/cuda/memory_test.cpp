// Budgets, a device that fails, and what is selected while the deltas are still on the device.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <bit>

#include "tests/training/cuda/cohort.hpp"

namespace gleaner::cuda {
namespace {

using testing::Bench;
using testing::Cohort;
using ::testing::HasSubstr;
using testing::train;

// Of many devices as many as the budget has room for, and not a byte more.
TEST(WaveMemory, TheBudgetDecidesHowManyDevicesAreAWave) {
  const Cohort cohort("mlp", 5, std::vector<std::uint32_t>(11, 6), 4);
  Bench large;
  const auto whole = large.trainer(cohort);
  const auto expected = train(*whole, cohort.turns);
  const auto figures = whole->figures(cohort.turns).value();
  EXPECT_GT(figures.devices, 11U);
  EXPECT_EQ(figures.budget_bytes, std::size_t{1} << 28U);

  std::uint32_t last = 0;
  for (const std::uint64_t devices : {1U, 2U, 3U}) {
    SCOPED_TRACE(devices);
    const std::size_t budget = figures.data_bytes + devices * figures.device_bytes;
    Bench bench({}, budget);
    const auto trainer = bench.trainer(cohort);
    const auto small = trainer->figures(cohort.turns).value();
    EXPECT_GE(small.devices, devices);
    EXPECT_GE(small.devices, last);
    EXPECT_LT(small.devices, 4 * devices);  // the pool's rounding makes one device dearer than its share of many
    last = small.devices;
    const auto outcome = train(*trainer, cohort.turns);
    ASSERT_TRUE(outcome.status) << outcome.status.error().message();
    for (std::size_t i = 0; i < 11; ++i) EXPECT_EQ(outcome.results[i]->delta, expected.results[i]->delta);
    EXPECT_LE(bench.driver.allocated_bytes(), budget);
    EXPECT_EQ(trainer->figures(cohort.turns)->devices, small.devices) << "what it holds itself is no one else's";
    EXPECT_THAT(trainer->describe(),
                HasSubstr(text({budget, small.data_bytes, small.device_bytes, std::min(small.devices, 11U)})));
  }
}

TEST(WaveMemory, TooLittleForOneDeviceNamesBudgetAndNeed) {
  const Cohort cohort("mlp", 5, {6, 6}, 4);
  Bench large;
  const auto enough = large.trainer(cohort)->figures(cohort.turns).value();
  const std::size_t budget = enough.data_bytes + enough.device_bytes - 1;
  Bench bench({}, budget);
  const auto trainer = bench.trainer(cohort);
  EXPECT_EQ(trainer->figures(cohort.turns)->devices, 0U);
  const auto outcome = train(*trainer, cohort.turns);
  ASSERT_FALSE(outcome.status);
  EXPECT_EQ(outcome.status.error().code(), ErrorCode::fatal);
  EXPECT_THAT(outcome.status.error().message(), HasSubstr(fmt::format("budget of {}", budget)));
  EXPECT_THAT(outcome.status.error().message(), HasSubstr(fmt::format("{} bytes", enough.device_bytes)));
  EXPECT_TRUE(outcome.results.empty());
  EXPECT_FALSE(bench.engine->lost());
  EXPECT_TRUE(bench.engine->allocate<float>(10));
}

// The budget allows it, but others have the memory.
TEST(WaveMemory, ADeviceWithoutTheRoomOfTheBudgetNamesBoth) {
  const Cohort cohort("mlp", 5, std::vector<std::uint32_t>(30, 6), 4);
  Bench bench({.memory_bytes = 60'000}, 10'000'000);
  const auto outcome = train(*bench.trainer(cohort), cohort.turns);
  ASSERT_FALSE(outcome.status);
  EXPECT_THAT(outcome.status.error().message(), HasSubstr("10000000"));
  EXPECT_THAT(outcome.status.error().message(), HasSubstr("30 devices"));
  EXPECT_FALSE(bench.engine->lost());
}

TEST(WaveMemory, EverythingIsGivenBack) {
  const Cohort cohort("cnn", 6, {2, 3}, 4);
  emulation::EmulatedDriver driver({});
  {
    const auto engine = Engine::create(driver, {.budget_bytes = 1U << 26U, .staging_bytes = 4'096}).value();
    const auto& launches = emulated::training_launches();
    const auto trainer =
        BatchTrainer::create(*engine, own_products(*engine, launches), launches, cohort.spec, cohort.dataset).value();
    EXPECT_TRUE(train(*trainer, cohort.turns).status);
  }
  EXPECT_EQ(driver.allocated_bytes(), 0U);
  EXPECT_EQ(driver.open_handles(), 0U);
}

// Wherever it happens: an error, the same one from then on, whole results or none, and nothing left behind.
TEST(WaveMemory, ADeviceThatDisappearsIsAnErrorAtEveryStep) {
  const Cohort cohort("softmax", 2, {2, 1}, 4);
  Bench whole;
  const auto expected = train(*whole.trainer(cohort), cohort.turns);
  bool finished = false;
  for (std::uint64_t calls = 0; !finished; ++calls) {
    ASSERT_LT(calls, 1'000U);
    emulation::EmulatedDriver driver({.calls_until_lost = calls});
    const auto work = [&]() -> Status {
      GLEANER_ASSIGN(const auto engine, Engine::create(driver, {.budget_bytes = 1U << 24U, .staging_bytes = 1'024}));
      const auto& launches = emulated::training_launches();
      GLEANER_ASSIGN(const auto trainer, BatchTrainer::create(*engine, own_products(*engine, launches), launches,
                                                              cohort.spec, cohort.dataset));
      std::vector<float> residual(cohort.start.size());
      std::vector<FusedSelection> selections(2, FusedSelection{.residual = residual, .k = 2});
      auto outcome = train(*trainer, cohort.turns, selections);
      if (outcome.status) outcome = train(*trainer, cohort.turns);  // as graphs
      for (std::size_t i = 0; i < outcome.results.size(); ++i) {
        EXPECT_EQ(outcome.results[i]->delta, expected.results[i]->delta);
      }
      if (!outcome.status) {
        EXPECT_EQ(engine->wait().error().message(), outcome.status.error().message());
        EXPECT_EQ(train(*trainer, cohort.turns).status.error().message(), outcome.status.error().message());
      }
      return outcome.status;
    };
    const Status status = work();
    finished = status.has_value();
    if (!finished) EXPECT_THAT(status.error().message(), HasSubstr("the device is lost"));
    EXPECT_EQ(driver.allocated_bytes(), 0U);
    EXPECT_EQ(driver.open_handles(), 0U);
  }
}

std::vector<std::uint32_t> bits_of(std::span<const float> values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

TEST(Selecting, HasTheBitsOfTheKernels) {
  Cohort cohort("mlp", 5, {4, 5, 6, 3, 2}, 4);
  cohort.turns[2].work.learning_rate = 1e30F;  // nothing comes of it
  Random random(1, Purpose::test);
  std::vector<std::vector<float>> residuals(5, std::vector<float>(cohort.start.size()));
  for (auto& residual : residuals) {
    for (float& entry : residual) entry = 0.1F * static_cast<float>(random.normal());
  }
  const auto before = residuals;
  std::vector<FusedSelection> selections;
  for (std::uint32_t i = 0; i < 5; ++i) selections.push_back({.residual = residuals[i], .k = 1 + 40 * i});
  Bench bench;
  const auto trainer = bench.trainer(cohort);
  trainer->limit_wave(2);
  const auto outcome = train(*trainer, cohort.turns, selections);
  ASSERT_TRUE(outcome.status);
  const KernelTable& reference = **kernels_for(Backend::reference);
  for (std::uint32_t i = 0; i < 5; ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(selections[i].is_done, i != 2);
    if (i == 2) {
      EXPECT_FALSE(outcome.results[i]);
      EXPECT_EQ(residuals[i], before[i]);
      continue;
    }
    auto residual = before[i];
    Selection expected;
    reference.accumulate_and_select(outcome.results[i]->delta, residual, 1 + 40 * i, expected);
    EXPECT_EQ(bits_of(residuals[i]), bits_of(residual));
    EXPECT_EQ(selections[i].selection.indices, expected.indices);
    EXPECT_EQ(bits_of(selections[i].selection.values), bits_of(expected.values));
    EXPECT_EQ(selections[i].selection.threshold, expected.threshold);
    EXPECT_EQ(selections[i].selection.squared_norm, expected.squared_norm);
  }
}

TEST(Selecting, IsOneLaunchAKernelForAllDevices) {
  const auto launches = [](std::size_t devices) {
    const Cohort cohort("softmax", 3, std::vector<std::uint32_t>(devices, 3), 2);
    Bench bench;
    std::vector<std::vector<float>> residuals(devices, std::vector<float>(cohort.start.size()));
    std::vector<FusedSelection> selections;
    for (auto& residual : residuals) selections.push_back({.residual = residual, .k = 4});
    const auto trainer = bench.trainer(cohort);
    EXPECT_TRUE(train(*trainer, cohort.turns, selections).status);
    EXPECT_TRUE(selections.back().is_done);
    return bench.driver.launch_count();
  };
  EXPECT_EQ(launches(1), launches(6));
}

}  // namespace
}  // namespace gleaner::cuda
