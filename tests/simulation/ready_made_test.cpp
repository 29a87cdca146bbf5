#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "simulation/experiment.hpp"

namespace gleaner::simulation {
namespace {

TEST(ReadyMadeExperiments, AreReadAndCanBeMet) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(GLEANER_EXPERIMENTS)) {
    const std::string path = entry.path().string();
    names.push_back(entry.path().stem().string());
    const auto experiment = load_experiment(path);
    ASSERT_TRUE(experiment) << experiment.error().message();
    EXPECT_EQ(experiment->run.spec.name, names.back());
    const auto devices = make_devices(experiment->devices, experiment->run.spec.seed);
    ASSERT_TRUE(devices) << devices.error().message();
    EXPECT_TRUE(check_deadline(*experiment, **devices)) << path;
    EXPECT_TRUE(check_samples(*experiment, 50'000)) << path;
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("cifar10", "demo", "femnist", "fashion-fedavg", "fashion-topk",
                                                   "fashion-gsasg", "fashion-clag", "fashion-ternary", "million"));
}

// What the published runs had.
TEST(ReadyMadeExperiments, AreTheRecipes) {
  const auto cifar = load_experiment(std::string(GLEANER_EXPERIMENTS) + "/cifar10.toml");
  ASSERT_TRUE(cifar);
  EXPECT_EQ(cifar->population.devices, 1'000U);
  EXPECT_EQ(cifar->run.planning.cohort_size, 50U);
  EXPECT_EQ(cifar->run.rounds, 1'500U);
  EXPECT_EQ(cifar->run.spec.batch_size, 10U);
  EXPECT_EQ(cifar->run.spec.local_epochs, 1U);
  EXPECT_EQ(cifar->data_label(), "synthetic-cifar10");
  const auto femnist = load_experiment(std::string(GLEANER_EXPERIMENTS) + "/femnist.toml");
  ASSERT_TRUE(femnist);
  EXPECT_EQ(femnist->population.devices, 3'400U);
  EXPECT_EQ(femnist->run.planning.cohort_size, 10U);
  EXPECT_EQ(femnist->run.rounds, 1'500U);
  const auto million = load_experiment(std::string(GLEANER_EXPERIMENTS) + "/million.toml");
  ASSERT_TRUE(million);
  EXPECT_EQ(million->population.devices, 1'000'000U);
}

}  // namespace
}  // namespace gleaner::simulation
