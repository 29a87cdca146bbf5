#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "world.hpp"

namespace gleaner {
namespace {

std::string run_file(const std::string& recipe, const std::string& more, bool reproducible = true) {
  return fmt::format(
      "[run]\nname = \"world\"\nrecipe = \"{}\"\nrounds = 12\nseed = 3\nreproducible = {}\n"
      "[model]\nname = \"softmax\"\n"
      "[data]\nname = \"patterns\"\nheight = 8\nwidth = 8\nchannels = 1\nclasses = 4\n"
      "[training]\nlearning_rate = 0.05\nbatch_size = 16\n"
      "[cohort]\nsize = 5\nmin_devices = {}\n{}",
      recipe, reproducible, reproducible ? 5 : 2, more);
}

struct End {
  std::uint64_t hash = 0;
  std::vector<Bytes> device_memory;
};

End end_of(World& world, std::uint32_t devices) {
  End end{.hash = world.status().row.model_hash, .device_memory = {}};
  for (std::uint32_t i = 0; i < devices; ++i) end.device_memory.push_back(world.device_state(i).memory->to_bytes());
  return end;
}

// Faultless runs under different schedules, then under faults: everything must end in the same bits.
class Recipes : public testing::TestWithParam<std::string> {};

TEST_P(Recipes, TheOrderOfEverythingChangesNothing) {
  std::optional<End> first;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    World world({.toml = run_file(GetParam(), ""), .seed = seed});
    ASSERT_TRUE(world.run_to_end()) << "seed " << seed << ": " << world.fatal() << world.status().waiting_for;
    const End end = end_of(world, 5);
    if (!first) first = end;
    EXPECT_EQ(end.hash, first->hash) << "seed " << seed;
    EXPECT_EQ(end.device_memory, first->device_memory) << "seed " << seed;
  }
}

TEST_P(Recipes, CrashesAndCutsChangeNothing) {
  World calm({.toml = run_file(GetParam(), ""), .seed = 1});
  ASSERT_TRUE(calm.run_to_end());
  const End expected = end_of(calm, 5);
  const char* wanted = std::getenv("GLEANER_SEEDS");
  const std::uint64_t seeds = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 12;
  std::uint64_t crashes = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    World world({.toml = run_file(GetParam(), ""),
                 .seed = seed,
                 .disconnects = 0.01,
                 .device_crashes = 0.005,
                 .coordinator_crashes = 0.003});
    ASSERT_TRUE(world.run_to_end()) << "seed " << seed << ": " << world.fatal() << " " << world.status().waiting_for;
    const End end = end_of(world, 5);
    EXPECT_EQ(end.hash, expected.hash) << "seed " << seed;
    EXPECT_EQ(end.device_memory, expected.device_memory) << "seed " << seed;
    EXPECT_TRUE(world.database().check().has_value()) << "seed " << seed;
    crashes += world.crashes();
  }
  EXPECT_GT(crashes, seeds);
}

TEST_P(Recipes, FullDisksOfDevicesChangeNothing) {
  World calm({.toml = run_file(GetParam(), ""), .seed = 1});
  ASSERT_TRUE(calm.run_to_end());
  const End expected = end_of(calm, 5);
  std::uint64_t unsaved = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    // Half of them with connections that come and go meanwhile.
    const double faults = seed % 2 == 0 ? 0.005 : 0.0;
    World world({.toml = run_file(GetParam(), ""),
                 .seed = seed,
                 .disconnects = faults,
                 .device_crashes = faults,
                 .coordinator_crashes = faults / 2,
                 .full_disks = 0.5});
    ASSERT_TRUE(world.run_to_end()) << "seed " << seed << ": " << world.fatal() << " " << world.status().waiting_for;
    const End end = end_of(world, 5);
    EXPECT_EQ(end.hash, expected.hash) << "seed " << seed;
    EXPECT_EQ(end.device_memory, expected.device_memory) << "seed " << seed;
    unsaved += world.unsaved();
  }
  EXPECT_GT(unsaved, 20U);
}

INSTANTIATE_TEST_SUITE_P(All, Recipes, testing::Values("fedavg", "topk", "gsasg"),
                         [](const auto& info) { return info.param; });

TEST(Rules, TrackedMemorySurvivesCrashesToo) {
  for (const char* rule : {"clag", "lasg-wk2"}) {
    const std::string file = run_file("topk", fmt::format("[upload]\nrule = \"{}\"\n", rule));
    World calm({.toml = file, .seed = 1});
    ASSERT_TRUE(calm.run_to_end()) << rule << " " << calm.fatal();
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      World world(
          {.toml = file, .seed = seed, .disconnects = 0.01, .device_crashes = 0.005, .coordinator_crashes = 0.003});
      ASSERT_TRUE(world.run_to_end()) << rule << " seed " << seed << ": " << world.fatal();
      EXPECT_EQ(world.status().row.model_hash, calm.status().row.model_hash) << rule << " seed " << seed;
    }
  }
}

TEST(Faults, WithoutReproducibleARunStillEndsAndTheLogIsSound) {
  const std::string more = "quorum = 0.6\ndeadline = \"10s\"\n";
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    World world({.toml = run_file("gsasg", more, false),
                 .seed = seed,
                 .disconnects = 0.02,
                 .device_crashes = 0.01,
                 .coordinator_crashes = 0.003});
    ASSERT_TRUE(world.run_to_end()) << "seed " << seed << ": " << world.fatal() << " " << world.status().waiting_for;
    EXPECT_EQ(world.status().row.version.value, 12U);
    EXPECT_TRUE(world.database().check().has_value()) << "seed " << seed;
  }
}

// Whoever answers another's plan is told so, whatever is being done with the true answer, which counts.
TEST(Faults, AnotherDevicesPlanIsNoBusinessOfAThief) {
  World calm({.toml = run_file("topk", "")});
  ASSERT_TRUE(calm.run_to_end());
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    World world({.toml = run_file("topk", ""), .seed = seed, .thefts = 0.5});
    ASSERT_TRUE(world.run_to_end()) << "seed " << seed << ": " << world.fatal() << " " << world.status().waiting_for;
    EXPECT_GT(world.thefts(), 5U);
    EXPECT_EQ(world.thefts_refused(), world.thefts()) << "seed " << seed;
    EXPECT_EQ(world.status().row.model_hash, calm.status().row.model_hash) << "seed " << seed;
  }
}

// The outcome that a connection asked for is still being looked up when the next connection begins.
TEST(Faults, ConnectionsThatComeAndGoOnlyGetWhatTheyAccepted) {
  const std::string more = "quorum = 0.6\ndeadline = \"10s\"\n";
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    World world({.toml = run_file("gsasg", more, false), .seed = seed, .disconnects = 0.1, .reconnect_at_once = true});
    EXPECT_TRUE(world.run_to_end()) << "seed " << seed << ": " << world.fatal() << " " << world.status().waiting_for;
  }
}

}  // namespace
}  // namespace gleaner
