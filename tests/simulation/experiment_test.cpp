#include "simulation/experiment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "simulation/output/round_output.hpp"
#include "tests/config/temp_folder.hpp"
#include "tests/simulation/simulation_reference.hpp"

namespace gleaner::simulation {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// A line each for [run] to [data]; what is given follows from line 10 on.
std::string file(std::string_view rest) {
  return "[run]\nname = \"t\"\nrecipe = \"topk\"\n[model]\nname = \"softmax\"\n[data]\nname = "
         "\"mnist\"\n[cohort]\nsize = 10\n" +
         std::string(rest);
}

Experiment parsed(std::string_view rest) {
  auto experiment = parse_experiment(file(rest), "/x/e.toml");
  if (!experiment) {
    ADD_FAILURE() << experiment.error().message();
    return {};
  }
  return std::move(*experiment);
}

std::string refusal(std::string_view rest) {
  const auto experiment = parse_experiment(file(rest), "e.toml");
  if (experiment) return "accepted";
  EXPECT_EQ(experiment.error().code(), ErrorCode::bad_input);
  return experiment.error().message();
}

TEST(ExperimentFile, ARunsFileIsEnough) {
  const Experiment e = parsed("");
  EXPECT_EQ(e.run.spec.recipe, "topk");
  EXPECT_EQ(e.run.spec.dimension, 7'850U);
  EXPECT_EQ(e.run.planning.cohort_size, 10U);
  EXPECT_EQ(e.population.devices, 100U);
  EXPECT_TRUE(e.is_synthetic());
  EXPECT_EQ(e.data_label(), "synthetic-mnist");
  EXPECT_FALSE(e.faults.any());
}

TEST(ExperimentFile, EveryOwnSectionIsRead) {
  TempFolder folder;
  folder.write("data/train");
  const auto made = parse_experiment(file(R"(
[evaluation]
every = 5
[population]
devices = 500
data = "data"
partition = "dirichlet"
alpha = 0.1
min_samples = 3
samples_per_device = 40
[devices]
profile = "lognormal"
availability = "periodic"
period = "12h"
on_share = 0.5
[classes.slow]
share = 2
samples_per_s = 20
uplink_kbit_per_s = 100
uplink_sigma = 0.5
[classes.fast]
samples_per_s = 2000
[network]
latency = "80ms"
jitter = 0.2
loss = 0.01
failure_rate = 0.05
[faults]
drops = 0.1
delay_max = "3s"
[backend]
name = "cpu"
[simulation]
threads = 3
residual_budget = "1GiB"
time_limit = "2d"
output = "out"
)"),
                                     folder / "e.toml");
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(made->run.evaluate_every, 5U);  // without data.evaluation
  EXPECT_EQ(made->population.data, folder / "data");
  EXPECT_EQ(made->data_label(), "mnist");
  EXPECT_EQ(made->population.samples_per_device, 40U);
  ASSERT_EQ(made->devices.classes.size(), 2U);
  EXPECT_EQ(made->devices.classes[0].name, "slow");
  EXPECT_EQ(made->devices.classes[0].share, 2.0);
  EXPECT_EQ(made->devices.classes[0].uplink_kbit_per_s.sigma, 0.5);
  EXPECT_EQ(made->devices.classes[1].samples_per_s.median, 2'000.0);
  EXPECT_EQ(made->devices.link.latency, std::chrono::milliseconds(80));
  EXPECT_EQ(made->devices.on_share, 0.5);
  EXPECT_TRUE(made->faults.any());
  EXPECT_EQ(made->threads, 3U);
  EXPECT_EQ(made->residual_budget_bytes, std::uint64_t{1} << 30);
  EXPECT_EQ(made->output, folder / "out");
}

TEST(ExperimentFile, MistakesOfRunAndSimulatorComeTogether) {
  EXPECT_THAT(
      refusal("[population]\ndevicse = 5\n[training]\nbatch_sze = 1\n[netwrk]\nloss = 1\n[network]\nloss = 1.0\n"),
      AllOf(HasSubstr("e.toml:11: population.devicse: unknown key; did you mean devices?"),
            HasSubstr("e.toml:13: training.batch_sze: unknown key; did you mean batch_size?"),
            HasSubstr("e.toml:14: netwrk: unknown section; did you mean [network]?"),
            HasSubstr("e.toml:17: network.loss: is the number 1.0, expected a number of at least 0, below 1")));
}

TEST(ExperimentFile, TooFewDevices) {
  EXPECT_EQ(refusal("[population]\ndevices = 9\n"),
            "e.toml:11: population.devices: is 9, expected at least cohort.size, which is 10");
}

TEST(ExperimentFile, ZeroSamples) {
  EXPECT_THAT(refusal("[population]\nmin_samples = 0\n"),
              HasSubstr("e.toml:11: population.min_samples: is the integer 0"));
  EXPECT_EQ(refusal("[population]\nmin_samples = 5\nsamples_per_device = 4\n"),
            "e.toml:12: population.samples_per_device: is 4, expected at least population.min_samples, which is 5");
}

TEST(ExperimentFile, BudgetsThatNoDeviceCanMeet) {
  EXPECT_THAT(
      refusal("[simulation]\nresidual_budget = \"31kB\"\n"),
      HasSubstr("e.toml:11: simulation.residual_budget: is 31kB, expected at least 31400B: what one device keeps "
                "back takes 4 bytes for each of 7850 parameters"));
  EXPECT_THAT(refusal("uplink_bytes_per_round = \"20B\"\n"),
              AllOf(StartsWith("e.toml:10: cohort.uplink_bytes_per_round: is 20B, expected at least"),
                    HasSubstr("one entry of each of 10 devices")));
}

TEST(ExperimentFile, KeysWithoutEffect) {
  EXPECT_EQ(refusal("[population]\nalpha = 0.5\n"),
            "e.toml:11: population.alpha: has no effect with population.partition = \"iid\", only with \"dirichlet\"; "
            "remove one of them");
  EXPECT_THAT(refusal("[devices]\nperiod = \"1h\"\n"), HasSubstr("e.toml:11: devices.period: has no effect"));
  EXPECT_THAT(refusal("[devices]\nprofile = \"lognormal\"\nsamples_per_s = 1\n[classes.a]\n"),
              HasSubstr("e.toml:12: devices.samples_per_s: has no effect"));
  EXPECT_THAT(refusal("[classes.a]\nshare = 1\n"), HasSubstr("classes: has no effect with devices.profile"));
  EXPECT_THAT(refusal("[devices]\nprofile = \"lognormal\"\n"),
              HasSubstr("expected at least one section [classes.NAME]"));
  EXPECT_THAT(refusal("[devices]\nfile = \"/dev/null\"\n"), HasSubstr("e.toml:11: devices.file:"));
}

TEST(ExperimentFile, TracesMustBeNamedAndThere) {
  EXPECT_THAT(refusal("[devices]\nprofile = \"csv\"\n"),
              HasSubstr("devices.file: is missing, expected the path of a file for devices.profile = \"csv\""));
  EXPECT_THAT(refusal("[devices]\navailability = \"fedscale\"\n"), HasSubstr("devices.availability_file: is missing"));
  EXPECT_THAT(refusal("[devices]\nprofile = \"csv\"\nfile = \"/none/x\"\n"), HasSubstr("no such file: /none/x"));
  const std::string data = GLEANER_SIMULATION_DATA;
  const Experiment e = parsed("[devices]\nprofile = \"fedscale\"\nfile = \"" + data +
                              "/fedscale_capacity.pickle\"\navailability = \"fedscale\"\navailability_file = \"" +
                              data + "/fedscale_behaviour.pickle\"\n");
  EXPECT_TRUE(make_devices(e.devices, e.run.spec.seed));
}

TEST(ExperimentFile, DataMustBeThere) {
  EXPECT_THAT(
      refusal("[population]\ndata = \"sinthetic\"\n"),
      AllOf(HasSubstr("e.toml:11: population.data: no such directory: "), EndsWith("did you mean \"synthetic\"?")));
  EXPECT_THAT(refusal("[population]\ndata = \"\"\n"), HasSubstr("population.data: is empty"));
  EXPECT_EQ(parsed("[population]\ndata = \"installed\"\n").data_label(), "mnist");
}

TEST(ExperimentFile, DevicesMustBeAbleToMeetTheDeadline) {
  Experiment e = parsed("deadline = \"2s\"\n[devices]\nsamples_per_s = 0.25\n[network]\nlatency = \"1s\"\n");
  auto devices = make_devices(e.devices, 1);
  ASSERT_TRUE(devices);
  const Status status = check_deadline(e, **devices);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message(),
              HasSubstr("cohort.deadline is 2s, but the fastest of 100 devices takes 5 s to train one sample"));
  e.run.planning.deadline = std::chrono::seconds(6);
  EXPECT_TRUE(check_deadline(e, **devices));
  e.run.planning.deadline = Duration(0);
  EXPECT_TRUE(check_deadline(e, **devices));
}

TEST(ExperimentFile, ThereMustBeSamplesForAll) {
  const Experiment shared = parsed("[population]\ndevices = 1000\nmin_samples = 6\n");
  EXPECT_TRUE(check_samples(shared, 6'000));
  EXPECT_THAT(
      check_samples(shared, 5'999).error().message(),
      HasSubstr("population.devices is 1000 with at least 6 samples each, but the data synthetic-mnist has 5999"));
  EXPECT_THAT(check_samples(shared, 0).error().message(), HasSubstr("has no samples"));
  const Experiment drawn = parsed("[population]\ndevices = 1000\nmin_samples = 6\nsamples_per_device = 9\n");
  EXPECT_TRUE(check_samples(drawn, 6));
  EXPECT_FALSE(check_samples(drawn, 5));
}

TEST(ExperimentFile, AnotherConfigurationIsNotGoneOnWith) {
  constexpr std::string_view kClasses = "[devices]\nprofile = \"lognormal\"\n[classes.a]\nshare = 2\n";
  const std::string stored = to_stored(parsed(kClasses));
  EXPECT_TRUE(check_resume(parsed(kClasses), stored));
  EXPECT_TRUE(
      check_resume(parsed(std::string(kClasses) + "[simulation]\nthreads = 2\nresidual_budget = \"1GiB\"\n"), stored));
  const auto difference = [&](const std::string& rest) {
    const Status status = check_resume(parsed(rest), stored);
    return status ? "none" : status.error().message();
  };
  EXPECT_THAT(difference(std::string(kClasses) + "[training]\nbatch_size = 7\n[population]\ndevices = 11\n"),
              StartsWith("cannot go on with another configuration: population.devices is 11 and was 100 and "
                         "training.batch_size is 7 and was 32; resume with"));
  EXPECT_THAT(difference("[devices]\nprofile = \"lognormal\"\n[classes.a]\nshare = 3\n"),
              HasSubstr("classes.a.share is 3.0 and was 2.0;"));
  EXPECT_THAT(difference("[devices]\nprofile = \"lognormal\"\n[classes.b]\nshare = 2\n"),
              AllOf(HasSubstr("classes.b.share is 2.0 and was not there"),
                    HasSubstr("classes.a.share is not there and was 2.0")));
  EXPECT_THAT(check_resume(parsed(kClasses), "").error().message(), HasSubstr("run.seed is "));
}

TEST(ExperimentFile, LevelsOfFaults) {
  EXPECT_FALSE(faults_of_level("none")->any());
  EXPECT_TRUE(faults_of_level("light")->any());
  EXPECT_GT(faults_of_level("heavy")->drops, faults_of_level("light")->drops);
  EXPECT_EQ(faults_of_level("havy").error().message(),
            "the level of faults is \"havy\", expected none, light and heavy; did you mean heavy?");
}

TEST(SimulationReference, EveryColumnOfTheOutputIsTold) {
  const std::string text = simulation_reference();
  std::istringstream columns(csv_header().substr(0, csv_header().size() - 1));
  for (std::string column; std::getline(columns, column, ',');) {
    EXPECT_THAT(text, HasSubstr("`" + column + "`"));
    EXPECT_THAT(to_json_line({}, {}), HasSubstr("\"" + column + "\":"));
  }
}

TEST(SimulationReference, TheDocumentIsWhatTheTablesSay) {
  std::ifstream in(GLEANER_SIMULATION_REFERENCE);
  std::ostringstream text;
  text << in.rdbuf();
  EXPECT_EQ(text.str(), simulation_reference()) << "run bin/simulation_reference > docs/simulation-configuration.md";
}

}  // namespace
}  // namespace gleaner::simulation
