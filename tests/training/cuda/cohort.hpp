#pragma once
// A small cohort on the emulation, and what train_local() makes of the same turns.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "common/random.hpp"
#include "kernels/cuda/emulation/driver.hpp"
#include "training/cuda/batch_trainer.hpp"
#include "training/cuda/tables.hpp"
#include "training/synthetic.hpp"

namespace gleaner::cuda::testing {

// Of what differs in rounding alone, relative to the largest entry of the delta.
constexpr double kTolerance = 2e-4;

struct Cohort {
  // `counts` samples for each device, drawn from one data set; images of side x side.
  Cohort(const std::string& model, std::uint32_t side, std::vector<std::uint32_t> counts, std::uint64_t seed = 1,
         std::uint32_t channels = 1)
      : dataset(synthetic_dataset(
            {.samples = 60, .classes = 4, .height = side, .width = side, .noise = 160, .channels = channels},
            {.pattern = seed, .noise = seed + 1})),
        spec(*model_spec(model, dataset, {.hidden = model == "softmax" ? 0U : 9U})),
        start(initial_parameters(spec, seed)) {
    Random random(seed, Purpose::test);
    for (float& parameter : start) parameter += 0.01F * static_cast<float>(random.normal());
    for (const std::uint32_t count : counts) {
      auto& mine = samples.emplace_back();
      for (std::uint32_t i = 0; i < count; ++i) mine.push_back(random.below(dataset.samples));
    }
    for (std::uint32_t device = 0; device < counts.size(); ++device) {
      turns.push_back({.samples = samples[device],
                       .parameters = start,
                       .work = {.epochs = 2, .batch_size = 4, .learning_rate = 0.05F},
                       .turn = {.seed = seed, .round = 5, .device = device * 7}});
    }
  }
  Cohort(const Cohort&) = delete;
  Cohort& operator=(const Cohort&) = delete;

  std::vector<Result<LocalResult>> by_cpu() const {
    Network network(spec);
    std::vector<Result<LocalResult>> results;
    for (const CohortTurn& turn : turns) {
      results.push_back(train_local(network, dataset, turn.samples, turn.parameters, turn.work, turn.turn));
    }
    return results;
  }

  Dataset dataset;
  ModelSpec spec;
  std::vector<float> start;
  std::vector<std::vector<std::uint32_t>> samples;
  std::vector<CohortTurn> turns;
};

struct Bench {
  explicit Bench(const emulation::EmulatedDevice& device = {}, std::size_t budget_bytes = std::size_t{1} << 28U)
      : driver(device),
        engine(Engine::create(driver, {.budget_bytes = budget_bytes, .staging_bytes = 4'096}).value()) {}

  std::unique_ptr<BatchTrainer> trainer(const Cohort& cohort) {
    const auto& launches = emulated::training_launches();
    return BatchTrainer::create(*engine, own_products(*engine, launches), launches, cohort.spec, cohort.dataset)
        .value();
  }

  emulation::EmulatedDriver driver;
  std::unique_ptr<Engine> engine;
};

struct Outcome {
  Status status;
  std::vector<Result<LocalResult>> results;
};

inline Outcome train(BatchTrainer& trainer, std::span<const CohortTurn> turns,
                     std::span<FusedSelection> selections = {}) {
  Outcome outcome;
  outcome.status = trainer.train(turns, selections, [&](std::size_t turn, Result<LocalResult> result) {
    EXPECT_EQ(turn, outcome.results.size());
    outcome.results.push_back(std::move(result));
  });
  return outcome;
}

inline void expect_near(const Result<LocalResult>& actual, const Result<LocalResult>& expected) {
  ASSERT_TRUE(expected.has_value()) << expected.error().message();
  ASSERT_TRUE(actual.has_value()) << actual.error().message();
  EXPECT_EQ(actual->steps, expected->steps);
  EXPECT_EQ(actual->samples_seen, expected->samples_seen);
  EXPECT_NEAR(actual->mean_loss, expected->mean_loss, kTolerance * (1.0 + expected->mean_loss));
  ASSERT_EQ(actual->delta.size(), expected->delta.size());
  double largest = 0.0;
  double apart = 0.0;
  for (std::size_t i = 0; i < expected->delta.size(); ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(expected->delta[i])));
    apart = std::max(apart, std::fabs(static_cast<double>(expected->delta[i]) - static_cast<double>(actual->delta[i])));
  }
  EXPECT_GT(largest, 0.0);
  EXPECT_LE(apart, kTolerance * largest);
}

inline void expect_near_cpu(const Cohort& cohort, const Outcome& outcome) {
  ASSERT_TRUE(outcome.status.has_value()) << outcome.status.error().message();
  const auto expected = cohort.by_cpu();
  ASSERT_EQ(outcome.results.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE(i);
    expect_near(outcome.results[i], expected[i]);
  }
}

}  // namespace gleaner::cuda::testing
