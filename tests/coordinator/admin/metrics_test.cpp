#include "coordinator/admin/metrics.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "tests/coordinator/admin/fake_backend.hpp"

namespace gleaner::admin {
namespace {

using testing::HasSubstr;
using testing::Not;

std::size_t lines_with(const std::string& text, const std::string& part) {
  std::istringstream lines(text);
  std::string line;
  std::size_t count = 0;
  while (std::getline(lines, line)) count += line.starts_with(part) ? 1 : 0;
  return count;
}

MetricsInput sample_input() {
  MetricsInput input;
  input.runs = {sample_run("demo")};
  input.devices = {sample_device("jetson-1", 1000), sample_device("jetson-2", 3000)};
  input.process = {
      .resident_bytes = 5'000'000, .open_files = 40, .open_files_max = 1024, .connections = 2, .inflight_bytes = 77};
  input.refusals = {{RefusalCode::non_finite, 4}};
  return input;
}

TEST(Metrics, SayWhatARunDoes) {
  const std::string text = to_prometheus(sample_input());
  for (const char* line :
       {"# TYPE gleaner_run_uploads_total counter", "gleaner_run_uploads_total{run=\"demo\"} 80",
        "gleaner_run_state{run=\"demo\",state=\"active\"} 1", "gleaner_run_state{run=\"demo\",state=\"paused\"} 0",
        "# TYPE gleaner_run_round gauge", "gleaner_run_round{run=\"demo\"} 12",
        "gleaner_run_socket_bytes_total{run=\"demo\",direction=\"up\"} 1000000",
        "gleaner_run_payload_bytes_total{run=\"demo\",direction=\"down\",part=\"indices\"} 800000",
        "gleaner_run_dense_bytes_total{run=\"demo\",direction=\"down\"} 60000000",
        "gleaner_run_accuracy_ratio{run=\"demo\"} 0.8321"}) {
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  }
}

TEST(Metrics, SayHowTheProcessIs) {
  const std::string text = to_prometheus(sample_input());
  for (const char* line :
       {"gleaner_process_resident_bytes 5000000", "gleaner_process_open_files 40",
        "gleaner_process_open_files_max 1024", "gleaner_connections 2", "gleaner_inflight_payload_bytes 77",
        "gleaner_devices_known 2", "gleaner_devices_connected 2", "gleaner_devices_revoked 0"}) {
    EXPECT_THAT(text, HasSubstr("\n" + std::string(line) + "\n"));
  }
}

TEST(Metrics, RefusalsByCode) {
  const std::string text = to_prometheus(sample_input());
  EXPECT_THAT(text, HasSubstr("gleaner_refusals_total{code=\"non-finite value\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("gleaner_refusals_total{code=\"quota\"} 0\n"));
  EXPECT_EQ(lines_with(text, "gleaner_refusals_total{"), 13U);
}

TEST(Metrics, ARunThatWasNotEvaluatedHasNoAccuracy) {
  MetricsInput input = sample_input();
  input.runs[0].accuracy.reset();
  EXPECT_THAT(to_prometheus(input), Not(HasSubstr("gleaner_run_accuracy_ratio")));
}

TEST(Metrics, DevicesWithTheMostBytesHaveSeriesAndTheOthersAreSummed) {
  MetricsInput input = sample_input();
  input.devices.clear();
  input.devices_named_max = 3;
  for (unsigned i = 0; i < 1000; ++i) input.devices.push_back(sample_device(fmt::format("d{}", i), i));
  const std::string text = to_prometheus(input);
  EXPECT_EQ(lines_with(text, "gleaner_device_socket_bytes_total{"), 6U);
  EXPECT_THAT(text, HasSubstr("gleaner_device_socket_bytes_total{device=\"d999\",direction=\"up\"} 999\n"));
  EXPECT_THAT(text, HasSubstr("gleaner_device_socket_bytes_total{device=\"d997\",direction=\"down\"} 1994\n"));
  EXPECT_THAT(text, Not(HasSubstr("d996")));
  const unsigned others = 996 * 997 / 2;
  EXPECT_THAT(text, HasSubstr(fmt::format("gleaner_other_devices_socket_bytes{{direction=\"up\"}} {}\n", others)));
}

TEST(Metrics, EveryRunHasItsSeriesAndTheOldestGiveWay) {
  MetricsInput input = sample_input();
  input.runs.clear();
  for (unsigned i = 0; i < 250; ++i) input.runs.push_back(sample_run(fmt::format("r{}", i)));
  input.runs[248].row.state = RunState::finished;
  input.runs[249].suspension = "suspended: the disk is full";
  const std::string text = to_prometheus(input);
  EXPECT_EQ(lines_with(text, "gleaner_run_version{"), 100U);
  EXPECT_THAT(text, Not(HasSubstr("run=\"r149\"")));
  for (const char* line :
       {"gleaner_run_version{run=\"r150\"} 11", "gleaner_run_state{run=\"r248\",state=\"finished\"} 1",
        "gleaner_run_accuracy_ratio{run=\"r248\"} 0.8321", "gleaner_run_suspended{run=\"r248\"} 0",
        "gleaner_run_suspended{run=\"r249\"} 1"}) {
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  }
}

TEST(Metrics, EveryLineHasTheFormatAndEveryNameItsUnits) {
  MetricsInput input = sample_input();
  input.runs.push_back(sample_run("night"));
  input.runs.back().accuracy.reset();
  const std::string text = to_prometheus(input);
  const std::regex sample(R"(gleaner_[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [-+0-9.eE]+)");
  const std::regex comment(R"(# (HELP|TYPE) (gleaner_[a-z_]+) .+)");
  std::set<std::string> types;
  std::set<std::string> series;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    std::smatch match;
    if (std::regex_match(line, match, comment)) {
      if (match[1] == "TYPE") EXPECT_TRUE(types.insert(match[2]).second) << line;
      const bool counter = line.ends_with(" counter") && match[1] == "TYPE";
      if (counter) EXPECT_TRUE(match[2].str().ends_with("_total")) << line;
    } else {
      EXPECT_TRUE(std::regex_match(line, sample)) << line;
      EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << line << " is there twice";
      EXPECT_TRUE(types.contains(line.substr(0, line.find_first_of("{ ")))) << line << " stands before its type";
    }
  }
  EXPECT_GE(types.size(), 25U);
}

TEST(Metrics, ProcessIsMeasured) {
  const ProcessFacts facts = measure_process();
  EXPECT_GT(facts.resident_bytes, 1'000'000U);
  EXPECT_GE(facts.open_files, 3U);
  EXPECT_GE(facts.open_files_max, facts.open_files);
}

}  // namespace
}  // namespace gleaner::admin
