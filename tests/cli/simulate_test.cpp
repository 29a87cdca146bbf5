#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>

#include <boost/json.hpp>
#include <fstream>

#include "common/descriptor.hpp"
#include "tests/cli/cli_run.hpp"

namespace gleaner::cli {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

class Simulate : public InTemporaryFolder {
 protected:
  Simulate() { write("e.toml", experiment()); }

  static std::string experiment(
      const std::string& cohort = "size = 6\nmin_devices = 4\nquorum = 0.7\ndeadline = \"30s\"\n",
      const std::string& population = "devices = 9\nsynthetic_samples = 270\n") {
    return "[run]\nname = \"small\"\nrecipe = \"gsasg\"\nrounds = 7\nseed = 2\n[model]\nname = "
           "\"softmax\"\n[data]\nname = "
           "\"fashion-mnist\"\n[training]\nbatch_size = 16\n[cohort]\n" +
           cohort + "[population]\n" + population + "[simulation]\ncheckpoint_every = 2\n";
  }

  Ran simulate(std::vector<std::string> more, const std::string& folder = "out") const {
    std::vector<std::string> args = {"simulate", path("e.toml"), "--output", path(folder)};
    args.insert(args.end(), more.begin(), more.end());
    return run_cli(std::move(args));
  }

  // The recorded rounds without what depends on the machine.
  std::vector<json::object> rounds(const std::string& folder = "out") const {
    std::vector<json::object> all;
    std::ifstream file(path(folder) + "/rounds.jsonl");
    for (std::string line; std::getline(file, line);) {
      all.push_back(json::parse(line).as_object());
      all.back().erase("real_s");
    }
    return all;
  }
};

TEST_F(Simulate, LeavesRoundsATableAndFigures) {
  const Ran ran = simulate({"--json", path("out.json")});
  ASSERT_EQ(ran.code, kOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("synthetic"));  // whatever is printed says that the data is made up
  EXPECT_THAT(ran.out, HasSubstr("hash: "));
  const auto all = rounds();
  ASSERT_GE(all.size(), 7U);
  EXPECT_EQ(all.back().at("version").as_int64(), 7);
  EXPECT_EQ(all.front().at("data").as_string(), "synthetic-fashion-mnist");
  EXPECT_FALSE(read("out/rounds.csv").empty());
  const auto figures = json::parse(read("out.json")).as_object();
  EXPECT_EQ(figures.at("recipe").as_string(), "gsasg");
  EXPECT_GT(figures.at("test_accuracy").as_double(), 0.1);
  EXPECT_GT(figures.at("frame_bytes_up").as_int64(), 0);
  EXPECT_EQ(figures.at("model_hash").as_string().size(), 16U);
}

TEST_F(Simulate, SeedsAndOptionsDecideAndThreadsDoNot) {
  ASSERT_EQ(simulate({"--threads", "1"}, "one").code, kOk);
  ASSERT_EQ(simulate({"--threads", "3"}, "three").code, kOk);
  ASSERT_EQ(simulate({"--seed", "9"}, "other").code, kOk);
  ASSERT_EQ(simulate({"--rounds", "3"}, "short").code, kOk);
  EXPECT_EQ(rounds("one"), rounds("three"));
  EXPECT_NE(rounds("one"), rounds("other"));
  EXPECT_EQ(rounds("short").back().at("version").as_int64(), 3);
}

// Killed by the real signal, at some moment; it goes on and ends like one that was left alone.
TEST_F(Simulate, KilledAndResumedItEndsWithTheSameLinesAndFigures) {
  ASSERT_EQ(simulate({"--json", path("whole.json")}, "whole").code, kOk);
  const std::string command = std::string("timeout -s KILL 0.4 ") + GLEANER_PROGRAM + " simulate " + path("e.toml") +
                              " --output " + path("out") + " --quiet > /dev/null 2>&1";
  (void)std::system(command.c_str());
  Ran ran = simulate({"--resume", "--json", path("again.json")});
  // Killed before it began: it begins in the same folder.
  if (ran.code != kOk) ran = simulate({"--json", path("again.json")});
  EXPECT_EQ(ran.code, kOk) << ran.err;
  EXPECT_EQ(rounds("out"), rounds("whole"));
  auto whole = json::parse(read("whole.json")).as_object();
  auto again = json::parse(read("again.json")).as_object();
  whole.erase("real_s");
  again.erase("real_s");
  EXPECT_EQ(again, whole);
}

TEST_F(Simulate, AFolderInUseIsNotWrittenOver) {
  ASSERT_EQ(simulate({}).code, kOk);
  const auto before = rounds();
  const Ran again = simulate({});
  EXPECT_NE(again.code, kOk);
  EXPECT_THAT(again.err, HasSubstr("--resume"));
  EXPECT_EQ(rounds(), before);
}

// A kill between the first byte of the state and the first checkpoint left a folder that neither way would take.
TEST_F(Simulate, KilledBeforeItsFirstCheckpointItIsBegunAnew) {
  ASSERT_EQ(simulate({}, "whole").code, kOk);
  ASSERT_EQ(simulate({"--rounds", "1", "--checkpoint-every", "0"}).code, kOk);
  std::filesystem::remove(path("out") + "/rounds.jsonl");
  std::filesystem::remove(path("out") + "/rounds.csv");
  EXPECT_EQ(simulate({}).code, kConflict);  // a model that was trained is not thrown away
  std::filesystem::remove(path("out") + "/state/run.db");
  write("out/state/run.db", "");
  write("out/state/run-0.db", "half of a cop");
  write("out/rounds.jsonl", "");
  const Ran ran = simulate({});
  ASSERT_EQ(ran.code, kOk) << ran.err;
  EXPECT_EQ(rounds(), rounds("whole"));
}

// Followed, the advice to resume would have cut the lines off.
TEST_F(Simulate, LinesWithoutTheirStateAreKept) {
  ASSERT_EQ(simulate({}).code, kOk);
  const std::string before = read("out/rounds.jsonl");
  std::filesystem::remove_all(path("out") + "/state");
  for (const auto& options : {std::vector<std::string>{"--seed", "9"}, std::vector<std::string>{"--resume"}}) {
    const Ran ran = simulate(options);
    EXPECT_EQ(ran.code, kConflict);
    EXPECT_EQ(read("out/rounds.jsonl"), before);
  }
  EXPECT_FALSE(std::filesystem::exists(path("out") + "/state/checkpoint"));
}

TEST_F(Simulate, ResumedAfterItsEndItSaysSoAndStays) {
  ASSERT_EQ(simulate({"--json", path("first.json")}).code, kOk);
  const std::string before = read("out/rounds.jsonl");
  const Ran again = simulate({"--resume"});
  EXPECT_EQ(again.code, kOk) << again.err;
  EXPECT_THAT(again.out, HasSubstr("Finished already"));
  const auto figures = json::parse(read("first.json")).as_object();
  EXPECT_THAT(again.out, HasSubstr(std::string(figures.at("model_hash").as_string())));
  EXPECT_EQ(read("out/rounds.jsonl"), before);
  // The figures that a killed one owes can still be had.
  ASSERT_EQ(simulate({"--resume", "--json", path("second.json")}).code, kOk);
  EXPECT_EQ(json::parse(read("second.json")).as_object().at("model_hash"), figures.at("model_hash"));
}

TEST_F(Simulate, StoppedWithoutCheckpointsItPromisesNoResume) {
  const std::string command = std::string("timeout -s INT 0.5 ") + GLEANER_PROGRAM + " simulate " + path("e.toml") +
                              " --rounds 100000 --checkpoint-every 0 --output " + path("out") + " > " + path("said") +
                              " 2>&1";
  (void)std::system(command.c_str());
  EXPECT_THAT(read("said"), HasSubstr("Without checkpoints there is nothing to go on from"));
}

TEST_F(Simulate, OneFolderIsForOneAtATime) {
  ASSERT_EQ(simulate({"--rounds", "2"}).code, kOk);
  const std::string before = read("out/rounds.jsonl");
  const Descriptor other(::open((path("out") + "/lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(other.get(), LOCK_EX | LOCK_NB), 0);
  for (const auto& options : {std::vector<std::string>{"--resume"}, std::vector<std::string>{}}) {
    const Ran ran = simulate(options);
    EXPECT_EQ(ran.code, kConflict);
    EXPECT_THAT(ran.err, HasSubstr("another `gleaner simulate` is at work there"));
  }
  EXPECT_EQ(read("out/rounds.jsonl"), before);
}

TEST_F(Simulate, FiguresThatCannotBeWrittenAreToldBeforeTheWork) {
  const Ran ran = simulate({"--json", path("missing") + "/out.json"});
  EXPECT_EQ(ran.code, kUsage);
  EXPECT_THAT(ran.err, HasSubstr("out.json"));
  EXPECT_FALSE(std::filesystem::exists(path("out")));
}

TEST_F(Simulate, ResumeSaysWhatIsWrong) {
  EXPECT_THAT(simulate({"--resume"}).err, HasSubstr("no checkpoint"));
  EXPECT_FALSE(std::filesystem::exists(path("out")));
  ASSERT_EQ(simulate({}).code, kOk);
  const auto before = rounds();
  write("e.toml", experiment("size = 5\nmin_devices = 4\nquorum = 0.7\ndeadline = \"30s\"\n"));
  const Ran other = simulate({"--resume"});
  EXPECT_EQ(other.code, kUsage);
  EXPECT_THAT(other.err, HasSubstr("size"));
  EXPECT_EQ(rounds(), before);
}

TEST_F(Simulate, MistakesOfTheFileAreToldWithExitCodeTwo) {
  const auto refused = [&](const std::string& file, const char* said) {
    write("e.toml", file);
    const Ran ran = simulate({}, "none");
    EXPECT_EQ(ran.code, kUsage) << said;
    EXPECT_THAT(ran.err, HasSubstr(said));
    EXPECT_FALSE(std::filesystem::exists(path("none") + "/rounds.jsonl"));
  };
  refused(experiment("size = 50\nmin_devices = 50\n"), "devices");
  refused(experiment() + "[devices]\nprofil = \"constant\"\n", "profile");
  refused(experiment("size = 6\n", "devices = 500\nsynthetic_samples = 270\n"), "samples");
  refused(experiment("size = 6\nmin_devices = 4\ndeadline = \"1ms\"\n"), "deadline");
}

TEST_F(Simulate, AFileThatIsNotThereIsNamed) {
  const Ran ran = run_cli({"simulate", path("nothing.toml")});
  EXPECT_EQ(ran.code, kUsage);
  EXPECT_THAT(ran.err, HasSubstr("nothing.toml"));
}

TEST_F(Simulate, BadWorldsAreCheckedAndCounted) {
  const Ran ran = run_cli({"simulate", path("e.toml"), "--faults", "heavy", "--seeds", "3"});
  ASSERT_EQ(ran.code, kOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("3 runs under faults, all sound"));
  EXPECT_THAT(run_cli({"simulate", path("e.toml"), "--faults", "heavi", "--seeds", "3"}).err, HasSubstr("heavy"));
}

TEST_F(Simulate, OneRunUnderALevelOfFaults) {
  ASSERT_EQ(simulate({}, "calm").code, kOk);
  ASSERT_EQ(simulate({"--faults", "none"}, "none").code, kOk);
  ASSERT_EQ(simulate({"--faults", "heavy"}, "heavy").code, kOk);
  ASSERT_EQ(simulate({"--faults", "heavy", "--first-seed", "5"}, "fifth").code, kOk);
  EXPECT_EQ(rounds("calm"), rounds("none"));
  EXPECT_NE(rounds("calm"), rounds("heavy"));
  EXPECT_NE(rounds("fifth"), rounds("heavy"));
  const Ran ran = simulate({"--faults", "bogus"}, "bogus");
  EXPECT_EQ(ran.code, kUsage);
  EXPECT_THAT(ran.err, HasSubstr("heavy"));
  EXPECT_FALSE(std::filesystem::exists(path("bogus")));
}

TEST_F(Simulate, OptionsThatWouldChangeNothingAreRefused) {
  const std::vector<std::vector<std::string>> wrong = {
      {"--seeds", "2"},  // beside --output
      {"--plot", "--resume"}, {"--plot", "--json", path("x.json")},
      {"--seeds", "0"},       {"--seed", "18446744073709551615"},
      {"--seed", "-1"},       {"--seed", "99999999999999999999"},
  };
  for (const auto& options : wrong) {
    EXPECT_EQ(simulate(options).code, kUsage) << options[0];
    EXPECT_FALSE(std::filesystem::exists(path("out"))) << options[0];
  }
  EXPECT_EQ(run_cli({"simulate", path("e.toml"), "--seeds", "2", "--json", path("x.json")}).code, kUsage);
  EXPECT_EQ(run_cli({"simulate", path("e.toml"), "--seeds", "2", "--resume"}).code, kUsage);
}

TEST_F(Simulate, SharesOfWorkThatFailAreTriedAgainWhereAllMustAnswer) {
  std::string file = experiment("size = 9\nmin_devices = 9\n") + "[network]\nfailure_rate = 0.3\n";
  file.replace(file.find("seed = 2"), 8, "seed = 2\nreproducible = true");
  write("e.toml", file);
  const Ran ran = simulate({});
  ASSERT_EQ(ran.code, kOk) << ran.err;
  EXPECT_EQ(rounds().size(), 7U);
}

}  // namespace
}  // namespace gleaner::cli
