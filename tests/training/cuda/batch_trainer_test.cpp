// Waves on the emulation against train_local(): every model, every setting, and the same bits however the waves are
// cut.

#include "training/cuda/batch_trainer.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/training/cuda/cohort.hpp"

namespace gleaner::cuda {
namespace {

using testing::Bench;
using testing::Cohort;
using testing::expect_near_cpu;
using testing::train;

struct ModelCase {
  const char* model;
  std::uint32_t side;
  std::uint32_t channels;
};

class Models : public ::testing::TestWithParam<ModelCase> {};

// Devices of different sample counts: the last batches are not full, and some end before others.
TEST_P(Models, AreTrainedAsByTheCpu) {
  const ModelCase& c = GetParam();
  const Cohort cohort(c.model, c.side, {6, 3, 1, 5}, 11, c.channels);
  Bench bench({.seed = 3});
  const auto trainer = bench.trainer(cohort);
  expect_near_cpu(cohort, train(*trainer, cohort.turns));
}

INSTANTIATE_TEST_SUITE_P(All, Models,
                         ::testing::Values(ModelCase{"softmax", 6, 3}, ModelCase{"mlp", 6, 1},
                                           ModelCase{"lenet", 17, 1}, ModelCase{"cnn", 7, 3},
                                           ModelCase{"leaf-cnn", 5, 2}),
                         [](const auto& each) {
                           std::string name = each.param.model;
                           std::erase(name, '-');
                           return name;
                         });

class Seeds : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(Seeds, AllSettingsAreTheCpus) {
  Cohort cohort("mlp", 5, {9, 14, 2, 30, 8, 11}, GetParam());
  cohort.turns[0].work = {.epochs = 1, .batch_size = 100, .learning_rate = 0.1F};
  cohort.turns[1].work = {.epochs = 3, .batch_size = 5, .learning_rate = 0.05F, .momentum = 0.9F};
  cohort.turns[2].work = {.epochs = 2, .batch_size = 1, .learning_rate = 0.05F, .weight_decay = 0.1F};
  cohort.turns[3].work = {.epochs = 4, .batch_size = 8, .learning_rate = 0.02F, .max_steps = 6};
  cohort.turns[4].work = {
      .epochs = 1, .batch_size = 3, .learning_rate = 0.02F, .momentum = 0.5F, .weight_decay = 0.01F, .max_steps = 2};
  std::vector<float> other = cohort.start;
  for (float& parameter : other) parameter *= 0.5F;
  cohort.turns[5].parameters = other;
  Bench bench({.seed = GetParam()});
  expect_near_cpu(cohort, train(*bench.trainer(cohort), cohort.turns));
}

// More samples than a slot has room for: several parts make one step.
TEST_P(Seeds, ALargeBatchIsWorkedOffInParts) {
  Cohort cohort("softmax", 2, {600, 700, 20}, GetParam());
  for (CohortTurn& turn : cohort.turns) turn.work = {.epochs = 2, .batch_size = 550, .learning_rate = 0.1F};
  cohort.turns[1].work.momentum = 0.9F;
  Bench bench({.seed = GetParam()});
  expect_near_cpu(cohort, train(*bench.trainer(cohort), cohort.turns));
}

INSTANTIATE_TEST_SUITE_P(All, Seeds, ::testing::Values(0, 1, 2));

// Of one wave or many, in whatever order, on however many blocks in whatever order.
TEST(BatchTrainer, TheWaveChangesNoBit) {
  Cohort cohort("mlp", 5, {9, 14, 2, 30, 8}, 4);
  cohort.turns[3].work.batch_size = 7;
  Bench first;
  const auto expected = train(*first.trainer(cohort), cohort.turns);
  ASSERT_TRUE(expected.status);
  for (const std::uint32_t limit : {1U, 2U, 4U}) {
    SCOPED_TRACE(limit);
    Bench bench({.seed = limit, .resident_blocks = 2 + 3 * limit});
    const auto trainer = bench.trainer(cohort);
    trainer->limit_wave(limit);
    std::vector<CohortTurn> reversed(cohort.turns.rbegin(), cohort.turns.rend());
    const auto actual = train(*trainer, reversed);
    ASSERT_TRUE(actual.status);
    for (std::size_t i = 0; i < cohort.turns.size(); ++i) {
      const auto& mine = actual.results[cohort.turns.size() - 1 - i];
      ASSERT_TRUE(mine && expected.results[i]);
      EXPECT_EQ(mine->delta, expected.results[i]->delta) << i;
      EXPECT_EQ(mine->mean_loss, expected.results[i]->mean_loss);
    }
  }
}

// The neighbours' settings decide whether steps are made by the products themselves; the bits are the same.
TEST(BatchTrainer, NeighboursChangeNoBit) {
  Cohort cohort("cnn", 6, {5, 6}, 5);
  Bench bench;
  const auto trainer = bench.trainer(cohort);
  const auto alone = train(*trainer, std::span(cohort.turns).first(1));
  cohort.turns[1].work.momentum = 0.9F;
  cohort.turns[1].work.batch_size = 6;
  const auto both = train(*trainer, cohort.turns);
  ASSERT_TRUE(alone.results[0] && both.results[0]);
  EXPECT_EQ(alone.results[0]->delta, both.results[0]->delta);
}

// The first time launch by launch, then as a graph: with the same bits.
TEST(BatchTrainer, AWaveCostsTheSameLaunchesWhateverItsSizeAndItsGraphServesAgain) {
  const auto launches = [](std::size_t devices) {
    const Cohort cohort("mlp", 4, std::vector<std::uint32_t>(devices, 12), 2);
    Bench bench;
    const auto trainer = bench.trainer(cohort);
    const auto first = train(*trainer, cohort.turns);
    EXPECT_TRUE(first.status);
    EXPECT_EQ(bench.driver.captured_graphs(), 0U);
    const auto before = bench.driver.launch_count();
    for (const std::uint64_t times : {1U, 2U, 3U}) {
      const auto again = train(*trainer, cohort.turns);
      EXPECT_TRUE(again.status);
      EXPECT_EQ(bench.driver.captured_graphs(), 1U);
      EXPECT_EQ(bench.driver.graph_launch_count(), times);
      EXPECT_EQ(bench.driver.launch_count(), before + times * before);
      for (std::size_t i = 0; i < devices; ++i) EXPECT_EQ(again.results[i]->delta, first.results[i]->delta);
    }
    return before;
  };
  EXPECT_EQ(launches(1), launches(9));
}

// So does the graph of another learning rate, of other tables, and after other waves.
TEST(BatchTrainer, GraphsOfManyWavesGiveTheBitsOfFreshOnes) {
  Cohort cohort("mlp", 4, {12, 5, 9, 30, 2}, 2);
  Bench bench;
  const auto trainer = bench.trainer(cohort);
  for (std::uint32_t round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    for (CohortTurn& turn : cohort.turns) {
      turn.work.learning_rate = round % 3 == 1 ? 0.1F : 0.05F;
      turn.work.momentum = round == 6 ? 0.9F : 0.0F;
      turn.work.max_steps = round == 5 ? 3 : 0;
      turn.turn.round = round / 2;
    }
    const std::span<const CohortTurn> some = std::span(cohort.turns).first(round % 2 == 0 ? 5 : 3);
    Bench fresh;
    const auto expected = train(*fresh.trainer(cohort), some);
    const auto actual = train(*trainer, some);
    ASSERT_TRUE(expected.status && actual.status);
    for (std::size_t i = 0; i < some.size(); ++i) {
      EXPECT_EQ(actual.results[i]->delta, expected.results[i]->delta) << i;
    }
  }
  EXPECT_GT(bench.driver.graph_launch_count(), 0U);
}

// Many steps are pieces, and slots that have ended drop out of them.
TEST(BatchTrainer, LongTurnsBesideShortOnes) {
  Cohort cohort("softmax", 2, {9, 10, 1, 2, 3, 3, 2, 1, 1}, 8);
  for (CohortTurn& turn : cohort.turns) turn.work = {.epochs = 5, .batch_size = 1, .learning_rate = 0.02F};
  Bench bench;
  expect_near_cpu(cohort, train(*bench.trainer(cohort), cohort.turns));
}

TEST(BatchTrainer, ErrorsAreTheTurnsOwnAndTheCpus) {
  Cohort cohort("mlp", 4, {6, 6, 6, 6, 6, 6}, 3);
  cohort.turns[0].samples = {};
  const std::vector<std::uint32_t> beyond = {1, cohort.dataset.samples};
  cohort.turns[1].samples = beyond;
  cohort.turns[2].work.learning_rate = 1e30F;
  cohort.turns[3].work.momentum = 1.0F;
  cohort.turns[5].parameters = std::span(cohort.start).first(3);
  Bench bench;
  const auto outcome = train(*bench.trainer(cohort), cohort.turns);
  ASSERT_TRUE(outcome.status);
  const auto expected = cohort.by_cpu();
  ASSERT_EQ(outcome.results.size(), expected.size());
  for (const std::size_t i : {0U, 1U, 2U, 3U, 5U}) {
    ASSERT_FALSE(outcome.results[i]) << i;
    EXPECT_EQ(outcome.results[i].error().message(), expected[i].error().message());
    EXPECT_EQ(outcome.results[i].error().code(), ErrorCode::bad_input);
  }
  testing::expect_near(outcome.results[4], expected[4]);
}

TEST(BatchTrainer, NoTurnsAndNothingButErrors) {
  Cohort cohort("softmax", 2, {1}, 3);
  Bench bench;
  const auto trainer = bench.trainer(cohort);
  EXPECT_TRUE(train(*trainer, {}).status);
  cohort.turns[0].samples = {};
  const auto outcome = train(*trainer, cohort.turns);
  EXPECT_TRUE(outcome.status);
  ASSERT_EQ(outcome.results.size(), 1U);
  EXPECT_FALSE(outcome.results[0]);
}

TEST(BatchTrainer, DataThatDoesNotFitTheModelIsRefused) {
  Cohort cohort("softmax", 3, {1});
  Bench bench;
  const auto& launches = emulated::training_launches();
  cohort.dataset.labels[3] = 200;
  EXPECT_FALSE(BatchTrainer::create(*bench.engine, own_products(*bench.engine, launches), launches, cohort.spec,
                                    cohort.dataset));
  const Cohort other("softmax", 4, {1});
  EXPECT_FALSE(
      BatchTrainer::create(*bench.engine, own_products(*bench.engine, launches), launches, cohort.spec, other.dataset));
}

}  // namespace
}  // namespace gleaner::cuda
