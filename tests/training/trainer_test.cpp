#include "training/trainer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "training/synthetic.hpp"

namespace gleaner {
namespace {

std::vector<std::uint32_t> all_of(const Dataset& dataset) {
  std::vector<std::uint32_t> samples(dataset.samples);
  std::iota(samples.begin(), samples.end(), 0U);
  return samples;
}

struct Task {
  explicit Task(const std::string& model, std::uint32_t side = 8, std::uint32_t samples = 600)
      : train(synthetic_dataset({.samples = samples, .classes = 5, .height = side, .width = side, .noise = 160},
                                {.pattern = 1, .noise = 2})),
        test(synthetic_dataset({.samples = 300, .classes = 5, .height = side, .width = side, .noise = 160},
                               {.pattern = 1, .noise = 3})),
        network(*model_spec(model, train, {.hidden = model == "softmax" ? 0U : 16U})),
        start(initial_parameters(network.spec(), 1)),
        samples(all_of(train)) {}

  Result<LocalResult> run(const LocalWork& work, const Turn& turn = {.seed = 1, .round = 2, .device = 3}) {
    return train_local(network, train, samples, start, work, turn);
  }
  std::vector<float> after(const LocalResult& result) const {
    std::vector<float> parameters = start;
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= result.delta[i];
    return parameters;
  }

  Dataset train;
  Dataset test;
  Network network;
  std::vector<float> start;
  std::vector<std::uint32_t> samples;
};

class Learns : public ::testing::TestWithParam<const char*> {};

TEST_P(Learns, SyntheticPatterns) {
  Task task(GetParam(), 16);
  EXPECT_LT(evaluate(task.network, task.test, task.start)->accuracy, 0.6);
  const auto result = task.run({.epochs = 8, .batch_size = 16, .learning_rate = 0.02F});
  ASSERT_TRUE(result.has_value()) << result.error().message();
  const auto evaluation = evaluate(task.network, task.test, task.after(*result));
  EXPECT_GT(evaluation->accuracy, 0.97);
  EXPECT_LT(evaluation->mean_loss, 0.2);
  EXPECT_EQ(evaluation->samples, 300U);
}
INSTANTIATE_TEST_SUITE_P(Models, Learns, ::testing::Values("softmax", "mlp", "lenet"));

TEST(TrainLocal, CountsStepsAndSamples) {
  Task task("softmax");
  const auto whole = task.run({.epochs = 2, .batch_size = 32});
  EXPECT_EQ(whole->steps, 2U * 19U);  // 600 = 18 x 32 + 24
  EXPECT_EQ(whole->samples_seen, 1200U);
  const auto cut = task.run({.epochs = 2, .batch_size = 32, .max_steps = 25});
  EXPECT_EQ(cut->steps, 25U);
  EXPECT_EQ(cut->samples_seen, 600U + 6U * 32U);
  const auto one = task.run({.epochs = 1, .batch_size = 0xffffffffU});
  EXPECT_EQ(one->steps, 1U);
  EXPECT_EQ(one->samples_seen, 600U);
}

TEST(TrainLocal, SameTurnSameBitsOtherTurnOthers) {
  Task task("mlp");
  const LocalWork work = {.epochs = 1, .batch_size = 32};
  const auto base = task.run(work, {.seed = 1, .round = 2, .device = 3});
  EXPECT_EQ(base->delta, task.run(work, {.seed = 1, .round = 2, .device = 3})->delta);
  EXPECT_NE(base->delta, task.run(work, {.seed = 9, .round = 2, .device = 3})->delta);
  EXPECT_NE(base->delta, task.run(work, {.seed = 1, .round = 9, .device = 3})->delta);
  EXPECT_NE(base->delta, task.run(work, {.seed = 1, .round = 2, .device = 9})->delta);
}

TEST(TrainLocal, OwnSubsetTrainsLikeTheWhole) {
  Task task("mlp");
  const std::vector<std::uint32_t> mine = {3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377};
  const LocalWork work = {.epochs = 3, .batch_size = 4};
  const auto shared = train_local(task.network, task.train, mine, task.start, work, {});
  const Dataset own = subset(task.train, mine);
  const auto alone = train_local(task.network, own, all_of(own), task.start, work, {});
  EXPECT_EQ(shared->delta, alone->delta);
}

// One full batch each: the update is known in closed form from the gradient.
TEST(TrainLocal, DeltaIsBeforeMinusAfter) {
  Task task("mlp");
  std::vector<float> gradient(task.start.size());
  const auto loss = gradient_at(task.network, task.train, task.samples, task.start, gradient);
  const auto result = task.run({.epochs = 1, .batch_size = 600, .learning_rate = 0.25F, .weight_decay = 0.5F});
  EXPECT_NEAR(result->mean_loss, *loss, 1e-6);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    ASSERT_NEAR(result->delta[i], 0.25F * (gradient[i] + 0.5F * task.start[i]), 1e-5F);
  }
}

TEST(TrainLocal, MomentumAccumulates) {
  Task task("softmax");
  const LocalWork work = {
      .epochs = 2, .batch_size = 600, .learning_rate = 0.25F, .momentum = 0.5F, .weight_decay = 0.1F};
  const auto result = task.run(work);
  std::vector<float> first(task.start.size());
  std::vector<float> second(task.start.size());
  std::vector<float> between = task.start;
  ASSERT_TRUE(gradient_at(task.network, task.train, task.samples, task.start, first).has_value());
  for (std::size_t i = 0; i < first.size(); ++i) {
    first[i] += 0.1F * task.start[i];
    between[i] -= 0.25F * first[i];
  }
  ASSERT_TRUE(gradient_at(task.network, task.train, task.samples, between, second).has_value());
  for (std::size_t i = 0; i < first.size(); ++i) {
    const float velocity = 0.5F * first[i] + second[i] + 0.1F * between[i];
    ASSERT_NEAR(result->delta[i], 0.25F * (first[i] + velocity), 1e-5F);
  }
}

TEST(TrainLocal, DivergenceIsSaid) {
  Task task("mlp");
  for (const float momentum : {0.0F, 0.9F}) {
    const auto result = task.run({.epochs = 5, .learning_rate = 1e30F, .momentum = momentum});
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code(), ErrorCode::bad_input);
    EXPECT_NE(result.error().message().find("training diverged"), std::string::npos) << result.error().message();
    EXPECT_NE(result.error().message().find("learning rate 1e+30 is probably too high"), std::string::npos);
  }
  // The last step can break the parameters after the last loss was still fine.
  const auto last = task.run({.epochs = 1, .learning_rate = 3e38F, .weight_decay = 3e38F, .max_steps = 1});
  ASSERT_FALSE(last.has_value());
  EXPECT_NE(last.error().message().find("a parameter is not finite after 1 steps"), std::string::npos);
}

TEST(TrainLocal, WrongArgumentsAreNamed) {
  Task task("mlp");
  const auto refused = [&](const LocalWork& work) { return task.run(work).error().message(); };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(refused({.epochs = 0}), "epochs is 0: must be at least 1");
  EXPECT_EQ(refused({.batch_size = 0}), "batch_size is 0: must be at least 1");
  for (const float rate : {0.0F, -0.1F, nan, std::numeric_limits<float>::infinity()}) {
    EXPECT_NE(refused({.learning_rate = rate}).find("learning_rate is"), std::string::npos);
  }
  for (const float momentum : {-0.1F, 1.0F, nan}) {
    EXPECT_NE(refused({.momentum = momentum}).find("momentum is"), std::string::npos);
  }
  for (const float decay : {-0.1F, nan}) {
    EXPECT_NE(refused({.weight_decay = decay}).find("weight_decay is"), std::string::npos);
  }
  task.samples = {600};
  EXPECT_EQ(refused({}), "sample 600 does not exist: the data set has 600");
  task.samples.clear();
  EXPECT_EQ(refused({}), "no samples to train on: give the device at least one");
  task.start.pop_back();
  EXPECT_EQ(refused({}), "model mlp has 1125 parameters, 1124 were given");
  Task other("softmax", 9);
  EXPECT_NE(evaluate(Task("softmax").network, other.train, std::vector<float>(325))
                .error()
                .message()
                .find("takes 64 inputs and 5 classes, the data set has 81 and 5"),
            std::string::npos);
}

TEST(DrawBatch, SameForTheSameTurnWithoutRepetition) {
  const Task task("softmax");
  const Turn turn = {.seed = 5, .round = 6, .device = 7};
  const auto batch = draw_batch(task.samples, 50, turn);
  EXPECT_EQ(batch, draw_batch(task.samples, 50, turn));
  EXPECT_NE(batch, draw_batch(task.samples, 50, {.seed = 5, .round = 7, .device = 7}));
  EXPECT_NE(batch, draw_batch(task.samples, 50, {.seed = 5, .round = 6, .device = 8}));
  EXPECT_EQ(std::set(batch.begin(), batch.end()).size(), 50U);
  EXPECT_EQ(draw_batch(std::vector<std::uint32_t>{9, 4}, 50, turn).size(), 2U);
  EXPECT_TRUE(draw_batch({}, 50, turn).empty());
}

TEST(DrawBatch, TakesOnlyOwnSamplesEvenly) {
  const std::vector<std::uint32_t> mine = {10, 20, 30, 40};
  std::map<std::uint32_t, int> counts;
  for (std::uint64_t round = 0; round < 4000; ++round) ++counts[draw_batch(mine, 1, {.seed = 1, .round = round})[0]];
  ASSERT_EQ(counts.size(), 4U);
  for (const std::uint32_t sample : mine) EXPECT_NEAR(counts[sample], 1000, 120);
}

TEST(GradientAt, BrokenModelIsAnError) {
  Task task("mlp");
  std::vector<float> out(task.start.size());
  task.start[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(gradient_at(task.network, task.train, task.samples, task.start, out).error().message().find("not finite"),
            std::string::npos);
  EXPECT_FALSE(gradient_at(task.network, task.train, {}, task.start, out).has_value());
}

TEST(Evaluate, DoesNotDependOnThreads) {
  for (const char* model : {"softmax", "mlp", "lenet"}) {
    const Task task(model, 16, 1000);
    const auto one = evaluate(task.network, task.train, task.start, 1);
    for (const unsigned threads : {0U, 2U, 3U, 100U}) {
      const auto many = evaluate(task.network, task.train, task.start, threads);
      EXPECT_EQ(one->accuracy, many->accuracy);
      EXPECT_EQ(one->mean_loss, many->mean_loss);
      EXPECT_EQ(many->samples, 1000U);
    }
  }
}

TEST(Evaluate, EmptyDatasetIsAnError) {
  const Task task("softmax");
  EXPECT_FALSE(evaluate(task.network, subset(task.train, {}), task.start).has_value());
}

}  // namespace
}  // namespace gleaner
