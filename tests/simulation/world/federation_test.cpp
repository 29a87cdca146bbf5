#include <sys/mount.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "bed.hpp"

namespace gleaner::simulation {
namespace {

// A quorum and a deadline: time decides who is in a round.
constexpr const char* kTimed = "quorum = 0.6\ndeadline = \"10s\"\n";

std::uint64_t seeds_wanted(std::uint64_t usual) {
  const char* wanted = std::getenv("GLEANER_SEEDS");
  return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : usual;
}

class Recipes : public testing::TestWithParam<std::string> {};

TEST_P(Recipes, ThreadsChangeNothing) {
  for (const bool reproducible : {true, false}) {
    BedSpec spec{.recipe = GetParam(), .reproducible = reproducible};
    if (!reproducible) spec.more = kTimed;
    std::optional<Ending> first;
    for (const unsigned threads : {1U, 2U, 5U}) {
      spec.threads = threads;
      Ending outcome = Bed(spec).run();
      ASSERT_EQ(outcome.error, "");
      EXPECT_EQ(outcome.records.size(), 10U);
      EXPECT_TRUE(outcome.records.back().accuracy.has_value());
      if (!first) first = outcome;
      EXPECT_EQ(outcome, *first) << threads << " threads";
    }
  }
}

TEST_P(Recipes, AnExperimentThatIsStoppedAndResumedEndsWithTheSameBits) {
  for (const bool reproducible : {true, false}) {
    BedSpec spec{.recipe = GetParam(), .reproducible = reproducible, .checkpoint_every = 3};
    if (!reproducible) spec.more = kTimed;
    const Ending whole = Bed(spec).run();
    ASSERT_EQ(whole.error, "");
    for (const std::uint32_t round : {2U, 3U, 5U, 9U}) {
      Bed bed(spec);
      bed.stop_at = round;
      ASSERT_EQ(bed.run().error, "");
      ASSERT_LT(bed.records().back().version, 10U);
      // What was told beyond the checkpoint is told again.
      const std::uint32_t from = bed.records().back().round / 3 * 3;
      std::erase_if(bed.records(), [&](const RoundRecord& record) { return record.round > from; });
      bed.stop_at = 0;
      EXPECT_EQ(bed.resume(), whole) << "stopped after round " << round;
    }
  }
}

TEST_P(Recipes, FaultsChangeNothingOfAReproducibleRun) {
  BedSpec spec{.recipe = GetParam()};
  const Ending calm = Bed(spec).run();
  ASSERT_EQ(calm.error, "");
  std::uint64_t crashes = 0;
  for (std::uint64_t seed = 1; seed <= seeds_wanted(10); ++seed) {
    spec.faults = *faults_of_level("heavy");
    spec.faults.seed = seed;
    const Ending outcome = Bed(spec).run();
    ASSERT_EQ(outcome.error, "") << "seed " << seed;
    EXPECT_EQ(outcome.hash, calm.hash) << "seed " << seed;
    crashes += outcome.crashes;
  }
  EXPECT_GT(crashes, 0U);
}

INSTANTIATE_TEST_SUITE_P(All, Recipes, testing::Values("fedavg", "topk", "gsasg"),
                         [](const auto& info) { return info.param; });

TEST(Federation, EndsUnderFaultsWhenTimeDecides) {
  for (std::uint64_t seed = 1; seed <= seeds_wanted(10); ++seed) {
    BedSpec spec{.reproducible = false, .more = kTimed, .cohort = 6, .faults = *faults_of_level("heavy")};
    spec.faults.seed = seed;
    Bed bed(spec);
    const Ending outcome = bed.run();
    ASSERT_EQ(outcome.error, "") << "seed " << seed;
    EXPECT_EQ(outcome.records.back().version, 10U);
  }
}

TEST(Federation, MemoryForStatesChangesNothing) {
  BedSpec spec{.devices = 30, .reproducible = false, .more = kTimed, .cohort = 10, .checkpoint_every = 4};
  const Ending roomy = Bed(spec).run();
  ASSERT_EQ(roomy.error, "");
  spec.budget_bytes = 1;
  EXPECT_EQ(Bed(spec).run(), roomy);
}

TEST(Federation, DevicesThatComeAndGoAreWaitedFor) {
  BedSpec spec{.devices = 12, .away = std::chrono::seconds(4)};
  const Ending outcome = Bed(spec).run();
  ASSERT_EQ(outcome.error, "");
  BedSpec all = spec;
  all.away = {};
  EXPECT_EQ(outcome.hash, Bed(all).run().hash);  // reproducible: everybody answers, whenever that is
  EXPECT_GT(outcome.records.back().virtual_s, 4.0);
}

// A device that comes for the first time is not followed frame by frame: the same bytes, times and model.
TEST(Federation, FirstGreetingsMayBeToldByTheirEnd) {
  for (const Duration away : {Duration{}, Duration(std::chrono::milliseconds(900))}) {
    BedSpec spec{.devices = 40, .reproducible = false, .more = kTimed, .cohort = 12, .away = away};
    const Ending quick = Bed(spec).run();
    ASSERT_EQ(quick.error, "");
    spec.greets_frame_by_frame = true;
    EXPECT_EQ(Bed(spec).run(), quick);
  }
}

TEST(Federation, AFolderWithAnExperimentIsNotBegunAnew) {
  Bed bed({.rounds = 2, .checkpoint_every = 1});
  ASSERT_EQ(bed.run().error, "");
  EXPECT_NE(bed.run().error.find("--resume"), std::string::npos);
}

// A round whose line finds no room is no round to go on from: the checkpoint before it is.
TEST(Federation, ACheckpointIsNotBeforeTheLinesOfItsRounds) {
  const BedSpec spec{.rounds = 6, .checkpoint_every = 2};
  const Ending whole = Bed(spec).run();
  ASSERT_EQ(whole.error, "");
  for (std::uint32_t full_at = 1; full_at <= 6; ++full_at) {
    Bed bed(spec);
    bed.full_at = full_at;
    EXPECT_EQ(bed.run().error, "no room for the line");
    ASSERT_EQ(bed.records().size(), full_at - 1);
    bed.full_at = 0;
    auto going_on = Federation::resume(bed.needs(bed.records()));
    ASSERT_TRUE(going_on) << going_on.error().message();
    const std::uint32_t done = (*going_on)->rounds_done();
    going_on->reset();
    ASSERT_LE(done, bed.records().size());
    bed.records().resize(done);
    EXPECT_EQ(bed.resume(), whole) << full_at;
  }
}

// Virtual time makes no room on a real disk: waiting for it there would last a year, and change the rounds after it.
TEST(Federation, ARealDiskThatIsFullEndsTheExperimentWhichIsGoneOnWithWhenThereIsRoom) {
  const BedSpec spec{.rounds = 8, .reproducible = false, .more = kTimed, .checkpoint_every = 3};
  const Ending whole = Bed(spec).run();
  ASSERT_EQ(whole.error, "");
  Bed bed(spec);
  if (::mount("tmpfs", bed.folder().c_str(), "tmpfs", 0, "size=8m") != 0)
    GTEST_SKIP() << "a small file system cannot be mounted here: " << std::strerror(errno);
  bed.after_round = [&](std::uint32_t round) {
    if (round != 4) return;
    std::ofstream ballast(bed.folder() + "/ballast");
    while (ballast << std::string(4096, 'x') << std::flush) {
    }
  };
  EXPECT_NE(bed.run().error.find("no space"), std::string::npos);
  std::filesystem::remove(bed.folder() + "/ballast");
  bed.after_round = {};
  bed.records().resize(3);
  const Ending resumed = bed.resume();
  ::umount2(bed.folder().c_str(), MNT_DETACH);
  EXPECT_EQ(resumed, whole);
}

TEST(Federation, ResumeWithoutACheckpointSaysSo) {
  Bed bed({.rounds = 2});
  EXPECT_NE(bed.resume().error.find("no checkpoint"), std::string::npos);
}

}  // namespace
}  // namespace gleaner::simulation
