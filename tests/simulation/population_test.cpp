#include "simulation/population.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/temp_folder.hpp"

namespace gleaner::simulation {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

Experiment experiment(std::string_view data, std::string_view population) {
  auto made = parse_experiment("[run]\nname = \"t\"\n[model]\nname = \"softmax\"\n[data]\n" + std::string(data) +
                                   "[population]\ndevices = 12\n" + std::string(population),
                               "/x/e.toml");
  if (!made) {
    ADD_FAILURE() << made.error().message();
    return {};
  }
  return std::move(*made);
}

constexpr std::string_view kOwnShape = "name = \"own\"\nheight = 6\nwidth = 5\nchannels = 2\nclasses = 4\n";

TEST(PopulationData, AStandInHasTheShapeAndSaysWhatItIs) {
  const auto data = load_population(experiment(kOwnShape, "synthetic_samples = 600\npartition = \"dirichlet\"\n"));
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ(data->label, "synthetic-own");
  EXPECT_EQ(data->train.samples, 600U);
  EXPECT_EQ(data->train.features, 60U);
  EXPECT_EQ(data->test.samples, 10'000U);
  EXPECT_EQ(data->train.classes, 4U);
  std::uint32_t samples = 0;
  for (std::uint32_t device = 0; device < 12; ++device) samples += data->partition->count_of(device);
  EXPECT_EQ(samples, 600U);
  EXPECT_THAT(split_table(*data), StartsWith("synthetic-own: 600 training and 10000 test samples\n"));
}

TEST(PopulationData, AWellKnownNameGivesItsOwnShape) {
  const auto data =
      load_population(experiment("name = \"mnist\"\n", "synthetic_samples = 100\nsamples_per_device = 30\n"));
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ(data->label, "synthetic-mnist");
  EXPECT_EQ(data->train.height, 28U);
  EXPECT_EQ(data->test.samples, 10'000U);
  EXPECT_EQ(data->partition->count_of(3), 30U);  // drawn: 12 x 30 of 100
}

TEST(PopulationData, TooFewSamplesAreToldBeforeTheSplit) {
  const auto data = load_population(experiment(kOwnShape, "synthetic_samples = 23\nmin_samples = 2\n"));
  ASSERT_FALSE(data);
  EXPECT_EQ(data.error().code(), ErrorCode::bad_input);
  EXPECT_THAT(data.error().message(), HasSubstr("population.devices is 12 with at least 2 samples each, but the data "
                                                "synthetic-own has 23"));
}

TEST(PopulationData, OtherSamplesThanTheFileSays) {
  const auto data = load_population(experiment(
      "name = \"cifar10\"\nheight = 28\nwidth = 28\nchannels = 1\nclasses = 10\n", "synthetic_samples = 100\n"));
  ASSERT_FALSE(data);
  EXPECT_THAT(data.error().message(),
              HasSubstr("synthetic-cifar10 has samples of 32 x 32 x 3 in 10 classes, but [data] "
                        "says 28 x 28 x 1 in 10"));
}

TEST(PopulationData, FilesThatAreNotThere) {
  TempFolder folder;
  const auto data = load_population(experiment("name = \"mnist\"\n", "data = \"" + folder.path().string() + "\"\n"));
  ASSERT_FALSE(data);
  EXPECT_THAT(data.error().message(), AllOf(HasSubstr(folder.path().string())));
}

}  // namespace
}  // namespace gleaner::simulation
