#include "training/network.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/random.hpp"
#include "reference.hpp"
#include "training/blas.hpp"

namespace gleaner {
namespace {

struct Case {
  const char* model;
  DatasetShape shape;
  std::uint32_t hidden;
  std::size_t samples;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.model << " " << c.shape.height << "x" << c.shape.width << "x" << c.shape.channels;
}

ModelSpec spec_of(const Case& c) {
  const auto spec = model_spec(c.model, c.shape, {.hidden = c.hidden});
  EXPECT_TRUE(spec.has_value()) << spec.error().message();
  return *spec;
}

struct RandomBatch {
  std::vector<float> inputs;
  std::vector<std::uint8_t> labels;
  Batch batch() const { return {inputs, labels}; }
};

RandomBatch random_batch(const ModelSpec& spec, std::size_t samples) {
  Random random(5, Purpose::test);
  RandomBatch result;
  for (std::size_t i = 0; i < samples * spec.inputs; ++i) {
    result.inputs.push_back(static_cast<float>(random.normal()));
  }
  for (std::size_t i = 0; i < samples; ++i) {
    result.labels.push_back(static_cast<std::uint8_t>(random.below(spec.classes)));
  }
  return result;
}

// Biases too are moved away from zero, so that a mistake in them shows.
std::vector<float> random_parameters(const ModelSpec& spec) {
  auto parameters = initial_parameters(spec, 11);
  Random random(6, Purpose::test);
  for (float& value : parameters) value += static_cast<float>(0.05 * random.normal());
  return parameters;
}

class NetworkTest : public ::testing::TestWithParam<Case> {};

TEST_P(NetworkTest, LossIsTheReferences) {
  const ModelSpec spec = spec_of(GetParam());
  const RandomBatch data = random_batch(spec, GetParam().samples);
  const auto parameters = random_parameters(spec);
  Network network(spec);
  const std::vector<double> exact(parameters.begin(), parameters.end());
  const double expected = testing::reference_loss(spec, exact, data.inputs, data.labels);
  EXPECT_NEAR(network.loss(parameters, data.batch()), expected, 1e-5 * (1.0 + expected));
}

TEST_P(NetworkTest, GradientIsTheReferencesSlope) {
  const ModelSpec spec = spec_of(GetParam());
  const RandomBatch data = random_batch(spec, GetParam().samples);
  const auto parameters = random_parameters(spec);
  Network network(spec);
  std::vector<float> gradient(parameters.size(), std::numeric_limits<float>::quiet_NaN());
  const double loss = network.gradient(parameters, data.batch(), gradient);
  EXPECT_DOUBLE_EQ(loss, network.loss(parameters, data.batch()));
  const float largest = std::abs(*std::ranges::max_element(gradient, {}, [](float g) { return std::abs(g); }));
  ASSERT_GT(largest, 1e-3F);

  // A sample of every tensor that covers its first and last entries, and all entries of the shortest.
  std::vector<double> moved(parameters.begin(), parameters.end());
  const auto slope = [&](std::size_t at) {
    constexpr double kStep = 1e-6;
    const double here = moved[at];
    moved[at] = here + kStep;
    const double above = testing::reference_loss(spec, moved, data.inputs, data.labels);
    moved[at] = here - kStep;
    const double below = testing::reference_loss(spec, moved, data.inputs, data.labels);
    moved[at] = here;
    return (above - below) / (2 * kStep);
  };
  Random random(7, Purpose::test);
  std::size_t first = 0;
  for (const TensorShape& tensor : tensors_of(spec)) {
    std::vector<std::size_t> places = {0, tensor.size() - 1};
    for (std::size_t i = 0; i < 14; ++i) {
      places.push_back(tensor.size() <= 14 ? i % tensor.size()
                                           : random.below(static_cast<std::uint32_t>(tensor.size())));
    }
    for (const std::size_t place : places) {
      const double expected = slope(first + place);
      EXPECT_NEAR(double{gradient[first + place]}, expected, 2e-5 * double{largest} + 1e-4 * std::abs(expected))
          << tensor.name << " entry " << place;
    }
    first += tensor.size();
  }
  EXPECT_EQ(first, gradient.size());
}

TEST_P(NetworkTest, StepIsTheGradientsStep) {
  const ModelSpec spec = spec_of(GetParam());
  const RandomBatch data = random_batch(spec, GetParam().samples);
  const auto before = random_parameters(spec);
  Network network(spec);
  std::vector<float> gradient(before.size());
  const double loss = network.gradient(before, data.batch(), gradient);
  auto after = before;
  EXPECT_DOUBLE_EQ(network.step(after, data.batch(), {.learning_rate = 0.5F, .weight_decay = 0.125F}), loss);
  for (std::size_t i = 0; i < before.size(); ++i) {
    ASSERT_NEAR(after[i], before[i] - 0.5F * (gradient[i] + 0.125F * before[i]), 2e-6F) << "parameter " << i;
  }
}

TEST_P(NetworkTest, LargeBatchIsTheMeanOfItsParts) {
  const ModelSpec spec = spec_of(GetParam());
  constexpr std::size_t kSamples = Network::kPartSamples + 44;
  const RandomBatch data = random_batch(spec, kSamples);
  const auto parameters = random_parameters(spec);
  Network network(spec);
  std::vector<float> whole(parameters.size());
  const double loss = network.gradient(parameters, data.batch(), whole);
  std::vector<double> mean(parameters.size(), 0.0);
  std::vector<float> part(parameters.size());
  double mean_loss = 0.0;
  for (std::size_t first = 0; first < kSamples; first += 100) {
    const Batch batch = {std::span(data.inputs).subspan(first * spec.inputs, 100 * spec.inputs),
                         std::span(data.labels).subspan(first, 100)};
    mean_loss += network.gradient(parameters, batch, part) / 3.0;
    for (std::size_t i = 0; i < part.size(); ++i) mean[i] += double{part[i]} / 3.0;
  }
  EXPECT_NEAR(loss, mean_loss, 1e-6 * (1.0 + mean_loss));
  for (std::size_t i = 0; i < mean.size(); ++i) ASSERT_NEAR(double{whole[i]}, mean[i], 1e-5) << "parameter " << i;

  auto after = parameters;
  network.step(after, data.batch(), {.learning_rate = 0.5F, .weight_decay = 0.0F});
  for (std::size_t i = 0; i < mean.size(); ++i) ASSERT_NEAR(after[i], parameters[i] - 0.5F * whole[i], 1e-6F);
}

TEST_P(NetworkTest, PredictionsAreTheLargestScoresAndCounted) {
  const ModelSpec spec = spec_of(GetParam());
  RandomBatch data = random_batch(spec, Network::kPartSamples + 9);
  const auto parameters = random_parameters(spec);
  Network network(spec);
  std::vector<std::uint8_t> predicted(data.labels.size());
  network.predict(parameters, data.inputs, predicted);
  std::size_t correct = 0;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    const auto scores = network.forward(parameters, std::span(data.inputs).subspan(i * spec.inputs, spec.inputs));
    ASSERT_EQ(scores.size(), spec.classes);
    EXPECT_GE(scores[predicted[i]], *std::ranges::max_element(scores) - 1e-4F);
    correct += predicted[i] == data.labels[i] ? 1 : 0;
  }
  EXPECT_EQ(network.score(parameters, data.batch()).correct, correct);
  data.labels = predicted;
  EXPECT_EQ(network.score(parameters, data.batch()).correct, predicted.size());
}

TEST_P(NetworkTest, NotANumberIsNotHidden) {
  const ModelSpec spec = spec_of(GetParam());
  const RandomBatch data = random_batch(spec, 4);
  std::vector<float> parameters(Network(spec).parameter_count(), std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(std::isnan(Network(spec).loss(parameters, data.batch())));
}

constexpr DatasetShape shape(std::uint32_t height, std::uint32_t width, std::uint32_t channels, std::uint32_t classes) {
  return {height * width * channels, classes, height, width, channels};
}

INSTANTIATE_TEST_SUITE_P(Models, NetworkTest,
                         ::testing::Values(Case{"cnn", shape(9, 8, 3, 4), 5, 4}, Case{"cnn", shape(6, 11, 1, 10), 9, 3},
                                           Case{"leaf-cnn", shape(7, 5, 2, 4), 6, 4},
                                           Case{"softmax", shape(3, 4, 2, 5), 0, 7},
                                           Case{"mlp", shape(5, 5, 1, 4), 9, 6},
                                           Case{"lenet", shape(16, 16, 1, 3), 7, 3},
                                           Case{"lenet", shape(17, 18, 2, 4), 5, 2}));

TEST(Network, HugeScoresKeepAFiniteLoss) {
  const ModelSpec spec = *model_spec("softmax", shape(1, 1, 1, 2), {});
  Network network(spec);
  const std::vector<float> parameters = {3e30F, -3e30F, 0.0F, 0.0F};
  const std::vector<float> input = {1.0F};
  const std::vector<std::uint8_t> right = {0};
  const std::vector<std::uint8_t> wrong = {1};
  EXPECT_EQ(network.loss(parameters, {input, right}), 0.0);
  EXPECT_NEAR(network.loss(parameters, {input, wrong}), 6e30, 1e25);
  std::vector<float> gradient(4);
  network.gradient(parameters, {input, wrong}, gradient);
  EXPECT_EQ(gradient, (std::vector<float>{1.0F, -1.0F, 1.0F, -1.0F}));
}

TEST(Network, SameObjectServesBatchesOfAnySize) {
  const ModelSpec spec = *model_spec("lenet", shape(16, 16, 1, 3), {.hidden = 4});
  const auto parameters = random_parameters(spec);
  Network used(spec);
  for (const std::size_t samples : {5U, 1U, 8U, 2U}) {
    const RandomBatch data = random_batch(spec, samples);
    std::vector<float> one(parameters.size());
    std::vector<float> other(parameters.size());
    Network fresh(spec);
    EXPECT_EQ(used.gradient(parameters, data.batch(), one), fresh.gradient(parameters, data.batch(), other));
    EXPECT_EQ(one, other);
  }
}

TEST(Network, LabelBeyondTheClassesIsRefused) {
  const ModelSpec spec = *model_spec("softmax", shape(1, 1, 1, 2), {});
  Network network(spec);
  const std::vector<float> parameters(4, 0.0F);
  const std::vector<float> input = {1.0F};
  const std::vector<std::uint8_t> label = {2};
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(network.loss(parameters, {input, label}), "labels");
}

TEST(Blas, OneThreadUnlessAskedFor) {
  EXPECT_EQ(blas_threads(), 1);
  set_blas_threads(2);
  EXPECT_EQ(blas_threads(), 2);
  set_blas_threads(1);
  EXPECT_EQ(blas_threads(), 1);
}

}  // namespace
}  // namespace gleaner
