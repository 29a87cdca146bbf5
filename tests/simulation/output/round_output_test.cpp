#include "simulation/output/round_output.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "tests/config/temp_folder.hpp"

namespace gleaner::simulation {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

const OutputLabel kLabel{.experiment = "cifar10", .data = "synthetic-cifar10"};

RoundRecord record(std::uint32_t round) {
  return {.round = round,
          .version = round,
          .virtual_s = 12.5 * round,
          .real_s = 0.25 * round,
          .accuracy = round % 2 == 0 ? std::optional(0.5) : std::nullopt,
          .loss = round % 2 == 0 ? std::optional(1.25) : std::nullopt,
          .payload_bytes_up = 1'000,
          .payload_bytes_down = 2'000,
          .frame_bytes_up = 1'100,
          .frame_bytes_down = 2'200,
          .socket_bytes_up = 1'200,
          .socket_bytes_down = 2'400,
          .uploads = 9,
          .skips = 1,
          .late = 2,
          .lapsed = 3,
          .reachable = 77};
}

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class Outputs : public testing::Test {
 protected:
  RoundOutput fresh(std::uint32_t rounds) {
    auto output = RoundOutput::create(directory_, kLabel);
    if (!output) ADD_FAILURE() << output.error().message();
    for (std::uint32_t r = 1; r <= rounds; ++r) EXPECT_TRUE(output->append(record(r)));
    return std::move(*output);
  }
  Result<RoundOutput> resume(std::uint32_t last) { return RoundOutput::resume(directory_, kLabel, last); }
  std::string jsonl() const { return read(directory_ + "/rounds.jsonl"); }
  std::string csv() const { return read(directory_ + "/rounds.csv"); }
  void append_to(const std::string& name, std::string_view text) const {
    std::ofstream(directory_ + "/" + name, std::ios::app | std::ios::binary) << text;
  }

  TempFolder folder_;
  std::string directory_ = folder_ / "a/b";
};

TEST_F(Outputs, ALineARoundInBothFiles) {
  fresh(2);
  EXPECT_EQ(
      jsonl().substr(0, jsonl().find('\n')),
      R"({"experiment":"cifar10","data":"synthetic-cifar10","round":1,"version":1,"virtual_s":12.5,"real_s":0.25,)"
      R"("accuracy":null,"loss":null,"payload_bytes_up":1000,"payload_bytes_down":2000,"frame_bytes_up":1100,)"
      R"("frame_bytes_down":2200,"socket_bytes_up":1200,"socket_bytes_down":2400,"uploads":9,"skips":1,"late":2,)"
      R"("lapsed":3,"reachable":77})");
  EXPECT_EQ(csv(),
            csv_header() +
                "\"cifar10\",\"synthetic-cifar10\",1,1,12.5,0.25,,,1000,2000,1100,2200,1200,2400,9,1,2,3,77\n"
                "\"cifar10\",\"synthetic-cifar10\",2,2,25,0.5,0.5,1.25,1000,2000,1100,2200,1200,2400,9,1,2,3,77\n");
}

TEST_F(Outputs, WhatWasWrittenIsRead) {
  const RoundOutput output = fresh(5);
  const auto recording = read_recording(directory_ + "/rounds.jsonl");
  ASSERT_TRUE(recording) << recording.error().message();
  EXPECT_EQ(recording->label, kLabel);
  EXPECT_EQ(recording->rounds, output.rounds());
}

TEST_F(Outputs, AnEarlierExperimentIsNotWrittenOver) {
  fresh(1);
  const std::string before = jsonl();
  const auto again = RoundOutput::create(directory_, kLabel);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), ErrorCode::conflict);
  EXPECT_THAT(again.error().message(), HasSubstr("rounds.jsonl is there already: name another folder with --output"));
  EXPECT_EQ(jsonl(), before);
  TempFolder other;
  other.write("rounds.csv", "mine");
  EXPECT_FALSE(RoundOutput::create(other.path().string(), kLabel));
  EXPECT_FALSE(std::filesystem::exists(other / "rounds.jsonl"));
}

TEST_F(Outputs, WhatWasKilledBeforeItsFirstRoundIsBegunAnew) {
  std::filesystem::create_directories(directory_);
  for (const std::size_t cut : {std::size_t{0}, std::size_t{9}, csv_header().size()}) {
    append_to("rounds.jsonl", "");
    append_to("rounds.csv", csv_header().substr(0, cut));
    const auto output = RoundOutput::create(directory_, kLabel);
    ASSERT_TRUE(output) << output.error().message();
    EXPECT_EQ(jsonl(), "");
    EXPECT_EQ(csv(), csv_header());
    std::filesystem::remove(directory_ + "/rounds.csv");
  }
}

// However many rounds were written beyond the state, and however much of the next line: what is there in the end is
// what an experiment that ran through leaves.
TEST_F(Outputs, ResumedFilesAreThoseOfOneRun) {
  fresh(6);
  const std::string whole_jsonl = jsonl();
  const std::string whole_csv = csv();
  for (std::uint32_t last = 0; last <= 6; ++last) {
    for (const std::size_t cut : {0U, 1U, 40U}) {
      append_to("rounds.jsonl", to_json_line(kLabel, record(7)).substr(0, cut));
      append_to("rounds.csv", to_csv_line(kLabel, record(7)).substr(0, cut));
      auto output = resume(last);
      ASSERT_TRUE(output) << output.error().message();
      EXPECT_EQ(output->rounds().size(), last);
      for (std::uint32_t r = last + 1; r <= 6; ++r) ASSERT_TRUE(output->append(record(r)));
      EXPECT_EQ(jsonl(), whole_jsonl) << last;
      EXPECT_EQ(csv(), whole_csv) << last;
      EXPECT_EQ(output->rounds().size(), 6U);
    }
  }
}

TEST_F(Outputs, WhatCannotBeGoneOnWithStaysAsItIs) {
  fresh(3);
  const auto refused = [&](std::uint32_t last, ErrorCode code, const std::string& why) {
    const std::string before = jsonl() + csv();
    const auto output = resume(last);
    ASSERT_FALSE(output) << why;
    EXPECT_EQ(output.error().code(), code);
    EXPECT_THAT(output.error().message(), HasSubstr(why));
    EXPECT_EQ(jsonl() + csv(), before);
  };
  refused(4, ErrorCode::corrupt, "rounds.jsonl has no line for round 4");
  EXPECT_FALSE(RoundOutput::resume(directory_, {.experiment = "cifar10", .data = "cifar10"}, 3));
  append_to("rounds.jsonl", "{\"round\":4}\n");
  refused(3, ErrorCode::bad_input, "rounds.jsonl:4:1: \"experiment\" is missing or of a wrong kind");
}

TEST_F(Outputs, AShortTableIsRefusedAndAMissingOneWrittenAnew) {
  fresh(3);
  const std::string whole = csv();
  std::filesystem::resize_file(directory_ + "/rounds.csv", whole.size() - 1);
  const auto shorter = resume(3);
  ASSERT_FALSE(shorter);
  EXPECT_THAT(shorter.error().message(), HasSubstr("rounds.csv has fewer than 3 rounds: delete it"));
  std::filesystem::remove(directory_ + "/rounds.csv");
  EXPECT_TRUE(resume(3));
  EXPECT_EQ(csv(), whole);
}

TEST_F(Outputs, MistakesInRecordingsHaveTheirPlace) {
  const std::string line = to_json_line(kLabel, record(1));
  const auto refusal = [&](const std::string& text) {
    const auto recording = read_recording(folder_.write("r.jsonl", text));
    return recording ? "read" : recording.error().message();
  };
  EXPECT_THAT(refusal(line + "{\"a\":,}\n"), HasSubstr("r.jsonl:2:6: is no JSON"));
  EXPECT_THAT(refusal("[]\n"), HasSubstr("r.jsonl:1:1: is no JSON object"));
  EXPECT_THAT(refusal("{} {}\n"), HasSubstr("r.jsonl:1:"));
  EXPECT_THAT(refusal("\n"), HasSubstr("r.jsonl:1:"));
  EXPECT_THAT(refusal(line + line), HasSubstr("r.jsonl:2:1: round 1 comes after round 1"));
  EXPECT_THAT(refusal(line + to_json_line({"other", "d"}, record(2))),
              HasSubstr("r.jsonl:2:1: is of another experiment"));
  std::string wrong = line;
  wrong.replace(wrong.find("\"uploads\":9"), 11, "\"uploads\":-9");
  EXPECT_THAT(refusal(wrong), EndsWith("\"uploads\" is missing or of a wrong kind"));
  EXPECT_EQ(refusal(line.substr(0, line.size() - 1)), "read");  // half a line
  EXPECT_THAT(read_recording(folder_ / "none").error().message(), HasSubstr("none"));
}

TEST_F(Outputs, NumbersThatJsonLacksAreNull) {
  RoundRecord diverged = record(2);
  diverged.loss = std::numeric_limits<double>::infinity();
  EXPECT_THAT(to_json_line(kLabel, diverged), HasSubstr("\"loss\":null"));
}

TEST_F(Outputs, QuotesInLabelsStayInTheirField) {
  const OutputLabel label{.experiment = "a\"b,c", .data = "d"};
  EXPECT_THAT(to_csv_line(label, record(1)), testing::StartsWith("\"a\"\"b,c\",\"d\",1,"));
  const auto recording = read_recording(folder_.write("r.jsonl", to_json_line(label, record(1))));
  ASSERT_TRUE(recording);
  EXPECT_EQ(recording->label, label);
}

// A limit on the size of files is what a full disk is here: a part of the line is written, then no more.
TEST_F(Outputs, AFailedLineLeavesNothingAndMayComeAgain) {
  RoundOutput output = fresh(2);
  const std::string before_jsonl = jsonl();
  const std::string before_csv = csv();
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  for (const std::size_t room : {std::size_t{10}, to_json_line(kLabel, record(3)).size()}) {
    const rlimit small{.rlim_cur = before_jsonl.size() + room, .rlim_max = old.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    append_to("filler", "");
    const Status status = output.append(record(3));
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
    if (room == 10) {
      EXPECT_FALSE(status);
      EXPECT_EQ(jsonl(), before_jsonl);
      EXPECT_EQ(csv(), before_csv);
      EXPECT_EQ(output.rounds().size(), 2U);
    } else {
      EXPECT_TRUE(status);
    }
  }
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(output.rounds().size(), 3U);
}

TEST_F(Outputs, TheTableAtTheEnd) {
  const RoundOutput output = fresh(4);
  EXPECT_EQ(final_table(kLabel, output.rounds()),
            "experiment      cifar10\n"
            "data            synthetic-cifar10\n"
            "rounds          4, version 4\n"
            "accuracy        0.5000 in round 4, best 0.5000 in round 2\n"
            "loss            1.2500\n"
            "virtual time    50.0 s\n"
            "real time       1.0 s, 4 rounds/s\n"
            "payloads        4.00 kB up, 8.00 kB down\n"
            "frames          4.40 kB up, 8.80 kB down\n"
            "sockets (est.)  4.80 kB up, 9.60 kB down\n"
            "updates         36 sent, 4 skipped, 8 late, 12 lapsed\n");
  EXPECT_THAT(final_table(kLabel, {}), EndsWith("rounds          none\n"));
  RoundRecord late = record(1);
  late.virtual_s = 200'000;
  EXPECT_THAT(final_table(kLabel, {late}), testing::AllOf(HasSubstr("not measured"), HasSubstr("2 d 7 h")));
}

}  // namespace
}  // namespace gleaner::simulation
