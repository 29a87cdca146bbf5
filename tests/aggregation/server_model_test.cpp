#include "aggregation/server_model.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/hash.hpp"
#include "rounds.hpp"

namespace gleaner {
namespace {

constexpr ValueFormat kFormats[] = {ValueFormat::f32, ValueFormat::f16, ValueFormat::int8};

std::int64_t on_grid(float before, float after) {
  return std::llrint(std::ldexp(static_cast<double>(before) - static_cast<double>(after), kResidualExponent));
}

// 2^-40 steps of the mean that a coordinate's sum stands for.
std::int64_t mean_on_grid(std::int64_t sum, double divisor, const Grid& grid) {
  const double mean = static_cast<double>(sum) / std::ldexp(divisor, grid.exponent());
  return std::llrint(std::ldexp(mean, kResidualExponent));
}

RC_GTEST_PROP(ServerStep, ConservesEveryUnitOverAHundredRounds, ()) {
  constexpr std::uint32_t kDimension = 60;
  ServerStepOptions options = sparse_step(*rc::gen::inRange(1U, 70U), 300'000.0);
  options.patch_values = *rc::gen::elementOf(std::vector<ValueFormat>(std::begin(kFormats), std::end(kFormats)));
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  ServerModel server = make_server(random_model(seed, kDimension), options);
  Accumulator accumulator(kDimension, backend());
  std::vector<std::int64_t> owed(kDimension);
  std::vector<std::int64_t> applied(kDimension);
  for (std::uint32_t round = 0; round < 100; ++round) {
    fold_round(accumulator, seed, round, 3, 7);
    const std::vector<float> before(server.parameters().begin(), server.parameters().end());
    auto step = server.prepare(accumulator);
    RC_ASSERT(step.has_value());
    Accumulator given(accumulator);
    const auto in_place = server.prepare(std::move(given));
    RC_ASSERT(in_place.has_value());
    RC_ASSERT(in_place->residual == step->residual);
    RC_ASSERT(in_place->patch == step->patch);
    RC_ASSERT(in_place->model_hash == step->model_hash);
    RC_ASSERT(given.sum().empty());
    given.reset(accumulator.grid());
    RC_ASSERT(given.sum().size() == kDimension);
    RC_ASSERT(std::ranges::count(given.sum(), 0) == kDimension);
    RC_ASSERT(step->saturated == 0U);
    RC_ASSERT(step->decoded.indices.size() <= options.patch_entries_max);
    server.commit(std::move(*step));
    for (std::uint32_t i = 0; i < kDimension; ++i) {
      owed[i] += mean_on_grid(accumulator.sum()[i], options.divisor, accumulator.grid());
      applied[i] += on_grid(before[i], server.parameters()[i]);
      RC_ASSERT(applied[i] + server.residual()[i] == owed[i]);
    }
  }
}

// The device computes the same model from the patch alone, for every format, optimiser and backend.
RC_GTEST_PROP(ServerStep, DeviceHalfFollowsBitForBit, ()) {
  constexpr std::uint32_t kDimension = 80;
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  for (const ValueFormat format : kFormats) {
    for (const char* optimizer : {"sgd", "momentum"}) {
      ServerStepOptions options = sparse_step(*rc::gen::inRange(1U, 90U));
      options.patch_values = format;
      options.optimizer = optimizer;
      options.keep_residual = *rc::gen::arbitrary<bool>();
      ServerModel server = make_server(random_model(seed, kDimension), options);
      std::vector<float> device(server.parameters().begin(), server.parameters().end());
      std::uint64_t hash = server.hash();
      Accumulator accumulator(kDimension, backend());
      for (std::uint32_t round = 0; round < 6; ++round) {
        fold_round(accumulator, seed, round, 3, 9);
        auto step = server.prepare(accumulator);
        RC_ASSERT(step.has_value());
        const auto applied = apply_patch_payload(device, step->patch, step->patch_clip, hash, server.tensors(),
                                                 backend(Backend::reference));
        RC_ASSERT(applied.has_value());
        hash = *applied;
        RC_ASSERT(hash == step->model_hash);
        server.commit(std::move(*step));
        RC_ASSERT(
            std::ranges::equal(std::as_bytes(std::span<const float>(device)), std::as_bytes(server.parameters())));
        RC_ASSERT(server.hash() == backend().model_hash(server.parameters()));
      }
    }
  }
}

TEST(ServerStep, BackendsAgree) {
  constexpr std::uint32_t kDimension = 3'000;
  for (const ValueFormat format : kFormats) {
    ServerStepOptions options = sparse_step(150);
    options.optimizer = "momentum";
    options.patch_values = format;
    ServerModel a = make_server(random_model(5, kDimension), options, Backend::cpu);
    ServerModel b = make_server(random_model(5, kDimension), options, Backend::reference);
    Accumulator sum_a(kDimension, backend(Backend::cpu));
    Accumulator sum_b(kDimension, backend(Backend::reference));
    for (std::uint32_t round = 0; round < 5; ++round) {
      fold_round(sum_a, 5, round, 4, 200);
      fold_round(sum_b, 5, round, 4, 200);
      a.commit(std::move(*a.prepare(sum_a)));
      b.commit(std::move(*b.prepare(sum_b)));
    }
    EXPECT_EQ(a.to_snapshot(), b.to_snapshot());
  }
}

// FedAvg: the divisor is what came, everything is in the patch, nothing stays behind but rounding.
TEST(ServerStep, DenseAveragesWhatCame) {
  ServerStepOptions options;
  options.patch_entries_max = 4;
  ServerModel server = make_server({1.0F, 2.0F, 3.0F, 4.0F}, options);
  Accumulator accumulator(4, backend());
  accumulator.reset(grid_for(100));
  accumulator.fold({.dimension = 4, .indices = {0, 1, 2, 3}, .values = {1.0F, -1.0F, 0.0F, 0.5F}}, 30);
  accumulator.fold({.dimension = 4, .indices = {0, 1, 2, 3}, .values = {3.0F, -1.0F, 0.0F, 0.5F}}, 10);
  auto step = server.prepare(accumulator);
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->decoded.indices, (std::vector<std::uint32_t>{0, 1, 3}));
  EXPECT_EQ(step->patch_clip, 2.0F) << "the largest step is 1.5";
  EXPECT_EQ(step->step_squared_norm, 1.5 * 1.5 + 1.0 + 0.25);
  server.commit(std::move(*step));
  EXPECT_TRUE(std::ranges::equal(server.parameters(), std::vector<float>{-0.5F, 3.0F, 3.0F, 3.5F}));
  EXPECT_TRUE(std::ranges::all_of(server.residual(), [](std::int64_t s) { return s == 0; }));
}

TEST(ServerStep, AFixedDivisorDoesNotFollowWhoCame) {
  ServerModel server = make_server({0.0F}, sparse_step(1, 100.0));
  Accumulator accumulator(1, backend());
  accumulator.reset(grid_for(100));
  accumulator.fold({.dimension = 1, .indices = {0}, .values = {-1.0F}}, 25);
  server.commit(std::move(*server.prepare(accumulator)));
  EXPECT_EQ(server.parameters()[0], 0.25F);
}

TEST(ServerStep, NothingIsAValidStepWithAnEmptyPatch) {
  for (const double divisor : {0.0, 10.0}) {
    ServerModel server = make_server(random_model(1, 20), sparse_step(5, divisor));
    Accumulator accumulator(20, backend());
    accumulator.reset(grid_for(10));
    const std::uint64_t hash = server.hash();
    auto step = server.prepare(accumulator);
    ASSERT_TRUE(step.has_value());
    EXPECT_TRUE(step->decoded.indices.empty());
    EXPECT_EQ(step->model_hash, hash);
    EXPECT_EQ(step->step_squared_norm, 0.0);
    EXPECT_EQ(step->patch_clip, 1.0F);
    std::vector<float> device(server.parameters().begin(), server.parameters().end());
    EXPECT_EQ(apply_patch_payload(device, step->patch, step->patch_clip, hash, server.tensors(), backend()), hash);
    server.commit(std::move(*step));
    EXPECT_EQ(server.version(), Version{1});
    EXPECT_EQ(server.absolute_entries_since(Version{0}), 0U);
  }
}

TEST(ServerStep, NegativeZeroAndVanishingStepsAreDefined) {
  // -0 stays -0 without a step; 2^30 does not feel a step of 1; a step lands on +0.
  ServerModel server = make_server({-0.0F, 0x1p30F, 1.0F, 0x1p-149F}, sparse_step(4, 1.0));
  Accumulator accumulator(4, backend());
  accumulator.reset(grid_for(1));
  accumulator.fold({.dimension = 4, .indices = {0, 1, 2, 3}, .values = {-0.0F, 1.0F, 1.0F, 0x1p-149F}}, 1);
  server.commit(std::move(*server.prepare(accumulator)));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(server.parameters()[0]), 0x80000000U);
  EXPECT_EQ(server.parameters()[1], 0x1p30F);
  EXPECT_EQ(server.residual()[1], std::int64_t{1} << kResidualExponent) << "what moved nothing is still owed";
  EXPECT_EQ(std::bit_cast<std::uint32_t>(server.parameters()[2]), 0U);
  EXPECT_EQ(server.parameters()[3], 0x1p-149F);
  EXPECT_EQ(server.absolute_entries_since(Version{0}), 1U) << "only what differs by a bit counts as changed";
}

TEST(ServerStep, WhatTheResidualCannotHoldIsCutAndCounted) {
  ServerStepOptions options = sparse_step(1, 1.0);
  options.server_learning_rate = 0x1p30;
  ServerModel server = make_server({0.0F, 0.0F, 0.0F}, options);
  Accumulator accumulator(3, backend());
  accumulator.reset(grid_for(1));
  accumulator.fold({.dimension = 3, .indices = {0, 1, 2}, .values = {1.0F, -1.0F, 0x1p-10F}}, 1);
  auto step = server.prepare(accumulator);
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->saturated, 2U);
  EXPECT_EQ(step->patch_clip, 0x1p22F);
  server.commit(std::move(*step));
  EXPECT_EQ(server.parameters()[0], -0x1p22F);
  EXPECT_EQ(server.residual()[1], -kResidualMax);
  step = server.prepare(accumulator);
  EXPECT_EQ(step->saturated, 3U) << "two steps, and the sum of a step and a full residual";
}

TEST(ServerStep, RefusesAStepThatIsNotFiniteAndKeepsTheModel) {
  ServerStepOptions options = sparse_step(1, 1.0);
  options.server_learning_rate = std::numeric_limits<double>::max();
  ServerModel server = make_server({0.0F, 0.0F}, options);
  Accumulator accumulator(2, backend());
  accumulator.reset(grid_for(1));
  accumulator.fold({.dimension = 2, .indices = {1}, .values = {512.0F}}, 1);
  const Bytes before = server.to_snapshot();
  const auto step = server.prepare(accumulator);
  ASSERT_FALSE(step.has_value());
  EXPECT_EQ(step.error().code(), ErrorCode::bad_input);
  EXPECT_NE(step.error().message().find("parameter 1"), std::string::npos);
  EXPECT_EQ(server.to_snapshot(), before);
}

// EF21: devices send differences of what they track; the mean is that of everything they ever sent.
TEST(Tracked, TakesTheMeanOfAllRounds) {
  ServerStepOptions options = sparse_step(2, 4.0);
  options.tracked = true;
  ServerModel server = make_server({0.0F, 0.0F}, options);
  Accumulator accumulator(2, backend());
  const float sent[] = {4.0F, 0.0F, -2.0F};
  const float expected[] = {-4.0F, -8.0F, -10.0F};  // h = 4, 4, 2
  for (std::size_t round = 0; round < 3; ++round) {
    accumulator.reset(grid_for(4U << round));  // the fleet grows, the grid gets coarser
    accumulator.fold({.dimension = 2, .indices = {0}, .values = {sent[round]}}, 4);
    auto step = server.prepare(accumulator);
    ASSERT_TRUE(step.has_value());
    server.commit(std::move(*step));
    EXPECT_EQ(server.parameters()[0], expected[round]) << round;
  }
  accumulator.reset(grid_for(4));  // and finer again: the running sum keeps its grid
  auto step = server.prepare(accumulator);
  EXPECT_EQ(step->running_exponent, grid_for(16).exponent());
  server.commit(std::move(*step));
  EXPECT_EQ(server.parameters()[0], -12.0F);

  ServerModel restored = make_server({0.0F, 0.0F}, options);
  ASSERT_TRUE(restored.load_snapshot(server.to_snapshot()).has_value());
  accumulator.reset(grid_for(4));
  restored.commit(std::move(*restored.prepare(accumulator)));
  server.commit(std::move(*server.prepare(accumulator)));
  EXPECT_EQ(restored.to_snapshot(), server.to_snapshot());
  EXPECT_EQ(server.parameters()[0], -14.0F);
}

TEST(ServerModelMake, NamesTheOptionThatIsWrong) {
  const auto message = [](auto change) {
    ServerStepOptions options = sparse_step(1);
    change(options);
    const auto made = ServerModel::make({1.0F, 2.0F}, options, Grouping{{2}}, backend());
    if (made) return std::string("accepted");
    EXPECT_EQ(made.error().code(), ErrorCode::bad_input);
    return made.error().message();
  };
  const auto has = [&](auto change, std::string_view word) { return message(change).find(word) != std::string::npos; };
  EXPECT_TRUE(has([](ServerStepOptions&) {}, "accepted"));
  EXPECT_TRUE(has([](ServerStepOptions& o) { o.optimizer = "adam"; }, "sgd and momentum"));
  EXPECT_TRUE(has([](ServerStepOptions& o) { o.patch_entries_max = 0; }, "patch_entries_max"));
  EXPECT_TRUE(has([](ServerStepOptions& o) { o.divisor = -1.0; }, "divisor"));
  EXPECT_TRUE(has([](ServerStepOptions& o) { o.divisor = std::nan(""); }, "divisor"));
  EXPECT_TRUE(has([](ServerStepOptions& o) { o.divisor = 1e-300; }, "divisor"));
  EXPECT_TRUE(has([](ServerStepOptions& o) { o.tracked = true, o.divisor = 0.0; }, "fixed divisor"));
  EXPECT_TRUE(has([](ServerStepOptions& o) { o.server_learning_rate = 0.0; }, "learning rate"));
  const auto infinite = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(ServerModel::make({1.0F, infinite}, sparse_step(1), Grouping{{2}}, backend()).has_value());
  EXPECT_FALSE(ServerModel::make({1.0F}, sparse_step(1), Grouping{{2}}, backend()).has_value());
  EXPECT_FALSE(ServerModel::make({}, sparse_step(1), Grouping{{}}, backend()).has_value());
}

// A scripted run; the numbers are the same on every machine, or updates of one would not fit another.
TEST(ServerStep, GoldenHash) {
  constexpr std::uint32_t kDimension = 500;
  ServerStepOptions options = sparse_step(40);
  options.optimizer = "momentum";
  options.patch_values = ValueFormat::f16;
  for (const Backend which : {Backend::cpu, Backend::reference}) {
    ServerModel server = make_server(random_model(42, kDimension), options, which);
    Accumulator accumulator(kDimension, backend(which));
    EXPECT_EQ(server.hash(), 0xce3f3864eb99b600U);
    for (std::uint32_t round = 0; round < 20; ++round) {
      fold_round(accumulator, 42, round, 5, 30);
      server.commit(std::move(*server.prepare(accumulator)));
    }
    EXPECT_EQ(server.hash(), 0x95789688ac99d646U);
    EXPECT_EQ(digest_of(server.to_snapshot()).value, 0x716793eae5832bbaU);
    EXPECT_EQ(digest_of(accumulator.to_record()).value, 0x62402b62ed5eb6aeU);
  }
}

}  // namespace
}  // namespace gleaner
