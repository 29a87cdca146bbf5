// Hundreds of federations under seeded faults, each checked: no double count, nothing committed lost, mass conserved to
// the last bit, rounds closed in time, and of reproducible runs the model of the calm one.
#include <gtest/gtest.h>

#include <cstdlib>

#include "common/log.hpp"
#include "simulation/trials.hpp"

namespace gleaner::simulation {
namespace {

std::uint64_t seeds_wanted(std::uint64_t usual) {
  const char* wanted = std::getenv("GLEANER_SEEDS");
  return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : usual;
}

struct Case {
  std::string name;
  std::string run;
  std::string cohort;
};

std::string file_of(const Case& c) {
  return "[run]\nname = \"" + c.name + "\"\nrounds = 8\nseed = 5\n" + c.run +
         "[model]\nname = \"softmax\"\n[data]\nname = \"fashion-mnist\"\n"
         "[training]\nlearning_rate = 0.05\nbatch_size = 16\n[cohort]\n" +
         c.cohort +
         "[population]\ndevices = 9\nsynthetic_samples = 270\npartition = \"dirichlet\"\nalpha = 0.5\nmin_samples = 8\n"
         "[network]\nlatency = \"20ms\"\njitter = 0.2\n[evaluation]\nevery = 8\n";
}

class Trial : public testing::TestWithParam<Case> {};

TEST_P(Trial, EverySeedIsSound) {
  start_logging({.level = LogLevel::error});
  auto experiment = parse_experiment(file_of(GetParam()), "trial.toml");
  ASSERT_TRUE(experiment.has_value()) << experiment.error().message();
  auto stage = Stage::set(std::move(*experiment));
  ASSERT_TRUE(stage.has_value()) << stage.error().message();
  Trials trials(**stage, *faults_of_level("heavy"));
  const Status calm = trials.run_calm();
  ASSERT_TRUE(calm.has_value()) << calm.error().message();
  for (std::uint64_t seed = 1; seed <= seeds_wanted(100); ++seed) {
    const Status sound = trials.run(seed);
    ASSERT_TRUE(sound.has_value()) << "seed " << seed << ": " << sound.error().message();
  }
  std::cout << trials.report();
}

INSTANTIATE_TEST_SUITE_P(
    All, Trial,
    testing::Values(Case{"reproducible", "recipe = \"gsasg\"\nreproducible = true\n", "size = 9\nmin_devices = 9\n"},
                    Case{"timed", "recipe = \"gsasg\"\n",
                         "size = 6\nmin_devices = 3\nover_selection = 1.3\nquorum = 0.7\ndeadline = \"15s\"\n"},
                    Case{"dense", "recipe = \"topk\"\n",
                         "size = 9\nmin_devices = 2\nquorum = 0.5\ndeadline = \"15s\"\n"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gleaner::simulation
