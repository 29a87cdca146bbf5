#include "aggregation/server_optimizer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "rounds.hpp"

namespace gleaner {
namespace {

TEST(ServerOptimizerTable, NamesRoundTripAndUnknownOnesListTheCandidates) {
  for (const std::string& name : server_optimizer_names()) {
    const auto made = make_server_optimizer(name, {});
    ASSERT_TRUE(made.has_value());
    EXPECT_EQ((*made)->name(), name);
  }
  const auto unknown = make_server_optimizer("adam", {});
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().message(), "unknown server optimizer 'adam': use sgd and momentum");
}

TEST(ServerOptimizerTable, RefusesRatesWithoutSense) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const double rate : {0.0, -1.0, kNan, std::numeric_limits<double>::infinity()}) {
    EXPECT_FALSE(make_server_optimizer("sgd", {.learning_rate = rate}).has_value());
  }
  for (const double momentum : {-0.1, 1.0, kNan}) {
    EXPECT_FALSE(make_server_optimizer("momentum", {.momentum = momentum}).has_value());
  }
}

// Every row: no state that is not its own, zeros stay zeros from a fresh state, and chunks do not matter.
TEST(ServerOptimizerConformance, CoordinatesAreIndependent) {
  for (const std::string& name : server_optimizer_names()) {
    const auto made = std::move(*make_server_optimizer(name, {.learning_rate = 0.5, .momentum = 0.75}));
    const std::size_t slots = made->state_per_coordinate();
    std::vector<double> whole = {1.0, -2.0, 0.0, 4.0};
    std::vector<double> parts = whole;
    const std::vector<double> before(4 * slots, 0.25);
    std::vector<double> after(4 * slots);
    std::vector<double> after_parts(4 * slots);
    made->step(whole, before, after);
    for (std::size_t i = 0; i < 4; ++i) {
      made->step(std::span(parts).subspan(i, 1), std::span(before).subspan(i * slots, slots),
                 std::span(after_parts).subspan(i * slots, slots));
    }
    EXPECT_EQ(whole, parts) << name;
    EXPECT_EQ(after, after_parts) << name;
    std::vector<double> zeros(4);
    const std::vector<double> fresh(4 * slots);
    made->step(zeros, fresh, after);
    EXPECT_EQ(zeros, std::vector<double>(4)) << name;
    EXPECT_EQ(after, fresh) << name;
  }
}

// momentum 0.5, rate 2, means 4, 0, -1: m = 4, 2, 0; steps 8, 4, 0.
TEST(Momentum, MatchesAVectorComputedByHand) {
  ServerStepOptions options;
  options.optimizer = "momentum";
  options.server_momentum = 0.5;
  options.server_learning_rate = 2.0;
  options.patch_entries_max = 2;
  options.divisor = 2.0;
  ServerModel server = make_server({100.0F, 7.0F}, options);
  Accumulator accumulator(2, backend());
  const std::array means = {4.0F, 0.0F, -1.0F};
  const std::array expected = {92.0F, 88.0F, 88.0F};
  for (std::size_t round = 0; round < 3; ++round) {
    accumulator.reset(grid_for(2));
    accumulator.fold({.dimension = 2, .indices = {0}, .values = {means[round]}}, 2);
    auto step = server.prepare(accumulator);
    ASSERT_TRUE(step.has_value());
    server.commit(std::move(*step));
    EXPECT_EQ(server.parameters()[0], expected[round]);
    EXPECT_EQ(server.parameters()[1], 7.0F);
  }
}

// Momentum acts before top-k': the coordinate that lost the selection has its momentum all the same, in the residual.
TEST(Momentum, ActsBeforeTheSelection) {
  ServerStepOptions options;
  options.optimizer = "momentum";
  options.server_momentum = 0.5;
  options.patch_entries_max = 1;
  options.divisor = 1.0;
  ServerModel server = make_server({0.0F, 0.0F}, options);
  Accumulator accumulator(2, backend());
  accumulator.reset(grid_for(1));
  accumulator.fold({.dimension = 2, .indices = {0, 1}, .values = {4.0F, 2.0F}}, 1);
  server.commit(std::move(*server.prepare(accumulator)));
  EXPECT_EQ(server.residual()[1], std::int64_t{2} << kResidualExponent);
  accumulator.reset(grid_for(1));
  const auto step = server.prepare(accumulator);  // steps 2 and 1, residual 2 on the second: 2 against 3
  EXPECT_EQ(step->decoded.indices, std::vector<std::uint32_t>{1});
  EXPECT_EQ(step->decoded.values, std::vector<float>{3.0F});
}

}  // namespace
}  // namespace gleaner
