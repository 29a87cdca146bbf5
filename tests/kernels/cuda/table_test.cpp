// The table on host memory when the device fails: it has no way to say so but to end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cuda/emulation/driver.hpp"
#include "kernels/cuda/host_table.hpp"

namespace gleaner::cuda {
namespace {

struct Small {
  static SharedEngine& shared() {
    static emulation::EmulatedDriver driver({});
    static SharedEngine engine = {.mutex = {}, .engine = Engine::create(driver, {.budget_bytes = 50'000}).value()};
    return engine;
  }
};
constexpr KernelTable kTable = HostTable<Small>::table("cuda_small");

TEST(HostTable, EveryEntryIsThere) {
  EXPECT_EQ(kTable.name, "cuda_small");
  EXPECT_NE(kTable.select, nullptr);
  EXPECT_NE(kTable.model_hash, nullptr);
}

TEST(HostTable, AVectorThatDoesNotFitEndsTheProcessWithItsReason) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const std::vector<float> x(20'000, 1.0F);
  Selection out;
  EXPECT_DEATH(kTable.select(x, 5, out), "80000.*50000");
}

TEST(HostTable, LengthsThatDifferAreTheCallersBug) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  std::vector<float> residual(3);
  const std::vector<float> update(4);
  Selection out;
  EXPECT_DEATH(kTable.accumulate_and_select(update, residual, 1, out), "broken invariant");
}

}  // namespace
}  // namespace gleaner::cuda
