#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulation/devices/devices.hpp"
#include "tests/config/temp_folder.hpp"

namespace gleaner::simulation {
namespace {

using std::chrono::seconds;
using testing::EndsWith;
using testing::HasSubstr;

const std::string kData = GLEANER_SIMULATION_DATA;

class Traces : public testing::Test {
 protected:
  Result<std::unique_ptr<Devices>> csv(std::string_view text) {
    return make_devices({.profile = "csv",
                         .capacity_file = folder_.write("devices.csv", text),
                         .link = {.latency = std::chrono::milliseconds(9), .jitter = 0.5}},
                        1);
  }
  // What follows the folder's name in the refusal.
  std::string refusal(const Result<std::unique_ptr<Devices>>& made) {
    if (made) return "made";
    EXPECT_EQ(made.error().code(), ErrorCode::bad_input);
    return made.error().message().substr(folder_.path().string().size() + 1);
  }
  std::string csv_refusal(std::string_view text) { return refusal(csv(text)); }
  // Of a pickle in protocol 0.
  std::string capacity_refusal(std::string_view pickle) {
    return refusal(make_devices({.profile = "fedscale", .capacity_file = folder_.write("capacity", pickle)}, 1));
  }
  std::string behaviour_refusal(std::string_view pickle) {
    return refusal(
        make_devices({.availability = "fedscale", .availability_file = folder_.write("behaviour", pickle)}, 1));
  }

  TempFolder folder_;
};

constexpr std::string_view kNames = "samples_per_s,uplink_kbit_per_s,downlink_kbit_per_s\n";

TEST_F(Traces, CsvRowsAreDevices) {
  const auto devices =
      csv("# phones\r\n\r\ndownlink_kbit_per_s, samples_per_s,uplink_kbit_per_s ,loss,latency_ms\r\n"
          "16, 100, 8,0.25,1.5\r\n32,1e3,24,0,0");
  ASSERT_TRUE(devices) << devices.error().message();
  for (const std::uint32_t device : {0U, 2U, 1'000U}) {
    const DeviceTraits one = (*devices)->traits(device);
    EXPECT_EQ(one.samples_per_s, 100.0);
    EXPECT_EQ(one.uplink_bytes_per_s, 1'000.0);
    EXPECT_EQ(one.downlink_bytes_per_s, 2'000.0);
    EXPECT_EQ(one.loss, 0.25);
    EXPECT_EQ(one.latency, std::chrono::microseconds(1'500));
    EXPECT_EQ(one.jitter, 0.5);  // of the settings
  }
  EXPECT_EQ((*devices)->traits(1).samples_per_s, 1'000.0);
}

// As spreadsheets write it: a byte order mark before the first name, quotes around names and numbers.
TEST_F(Traces, CsvOfASpreadsheetIsRead) {
  const auto devices =
      csv("\xef\xbb\xbf\"samples_per_s\",uplink_kbit_per_s,downlink_kbit_per_s\r\n\"100\", \"8\" ,16\r\n");
  ASSERT_TRUE(devices) << devices.error().message();
  EXPECT_EQ((*devices)->traits(0).samples_per_s, 100.0);
  EXPECT_EQ((*devices)->traits(0).uplink_bytes_per_s, 1'000.0);
  EXPECT_THAT(csv_refusal(std::string(kNames) + "\"1,2,3\n"), HasSubstr("devices.csv:2:1: samples_per_s is"));
}

TEST_F(Traces, CsvMistakesNameFileLineAndColumn) {
  const std::string names(kNames);
  EXPECT_EQ(csv_refusal(names + "1,2,3\n4,  x,6\n"),
            "devices.csv:3:5: uplink_kbit_per_s is \"x\", expected a number above 0, at most 1e15");
  EXPECT_EQ(csv_refusal("\n#\n" + names + "1,2,3\n1,2\n"),
            "devices.csv:5:3: has 2 values, expected 3, one for each column name");
  EXPECT_EQ(csv_refusal(names + "1,2,3,4\n"), "devices.csv:2:7: has 4 values, expected 3, one for each column name");
  EXPECT_THAT(csv_refusal("samples_per_s,uplnk_kbit_per_s,downlink_kbit_per_s\n"),
              testing::AllOf(HasSubstr("devices.csv:1:15: there is no column \"uplnk_kbit_per_s\""),
                             EndsWith("did you mean uplink_kbit_per_s?")));
  EXPECT_EQ(csv_refusal("samples_per_s\n1\n"), "devices.csv:1:1: the column uplink_kbit_per_s is missing");
  EXPECT_EQ(csv_refusal("loss,loss\n"), "devices.csv:1:6: the column loss is named twice");
  for (const char* bad : {"0", "-1", "nan", "inf", "1e16", "", "1 2", "0x10", "1,5e"}) {
    EXPECT_THAT(csv_refusal(names + bad + ",2,3\n"), HasSubstr("devices.csv:2:")) << bad;
  }
  EXPECT_THAT(csv_refusal("samples_per_s,uplink_kbit_per_s,downlink_kbit_per_s,loss\n1,1,1,1\n"),
              HasSubstr("2:7: loss is \"1\", expected a number of at least 0, below 1"));
}

TEST_F(Traces, FilesWithoutDevicesAreRefused) {
  EXPECT_EQ(csv_refusal(""), "devices.csv: is empty, expected a line with column names");
  EXPECT_EQ(csv_refusal(kNames), "devices.csv: has no devices, expected a line for each");
  EXPECT_THAT(refusal(make_devices({.profile = "csv", .capacity_file = folder_ / "none"}, 1)),
              EndsWith("none: no such file"));
  EXPECT_THAT(refusal(make_devices({.profile = "csv", .capacity_file = folder_ / ""}, 1)), HasSubstr("is no file"));
}

TEST_F(Traces, FedScaleFilesAsPythonWroteThem) {
  auto made = make_devices({.profile = "fedscale",
                            .capacity_file = kData + "/fedscale_capacity.pickle",
                            .link = {.latency = Duration(0), .jitter = 0.0},
                            .availability = "fedscale",
                            .availability_file = kData + "/fedscale_behaviour.pickle"},
                           1);
  ASSERT_TRUE(made) << made.error().message();
  const Devices& devices = **made;
  // The first entry: 84.525 ms a sample, 6799.496 kbit/s.
  const DeviceTraits traits = devices.traits(0);
  EXPECT_EQ(devices.traits(60).samples_per_s, traits.samples_per_s);
  // FedScale: 3 x batch x steps x ms / 1000 seconds.
  EXPECT_NEAR(to_seconds(compute_time(traits, 20 * 5)), 3.0 * 20 * 5 * 84.525 / 1000.0, 1e-6);
  // FedScale: bytes / 1024 x 8 / (kbit/s).
  EXPECT_NEAR(to_seconds(transfer_time(traits, 1'000'000, Direction::up, {})), 1e6 / 1024 * 8 / 6799.496, 1e-6);
  EXPECT_NEAR(to_seconds(transfer_time(traits, 1'000'000, Direction::down, {})), 1e6 / 1024 * 8 / 6799.496, 1e-6);
  // active [17337, 117989, 205396], inactive [23128, 146614, 206107], again after 259200.
  for (const std::int64_t turn : {0, 1, 1'000}) {
    const Duration start = seconds(259'200) * turn;
    const auto at = [&](std::int64_t s) { return devices.availability(0, {start + seconds(s)}); };
    EXPECT_FALSE(at(0).reachable);
    EXPECT_EQ(at(0).until->since_start, start + seconds(17'337));
    EXPECT_TRUE(at(17'337).reachable);
    EXPECT_EQ(at(20'000).until->since_start, start + seconds(23'128));
    EXPECT_FALSE(at(23'128).reachable);
    EXPECT_TRUE(at(206'106).reachable);
    EXPECT_FALSE(at(206'107).reachable);
    EXPECT_EQ(at(206'107).until->since_start, start + seconds(259'200 + 17'337));
  }
}

TEST_F(Traces, FedScaleMistakesNameFileAndEntry) {
  EXPECT_EQ(capacity_refusal("N."), "capacity: is None, expected a dictionary with an entry for each device");
  EXPECT_EQ(capacity_refusal("}."),
            "capacity: is an empty dictionary, expected a dictionary with an entry for each device");
  EXPECT_EQ(capacity_refusal("(I7\nI5\nd."), "capacity: entry 1 (key 7): is 5, expected a dictionary");
  EXPECT_EQ(capacity_refusal("(I7\n(S'computation'\nF2.5\ndd."), "capacity: entry 1 (key 7): has no \"communication\"");
  EXPECT_EQ(capacity_refusal("(I7\n(S'computation'\nI0\nS'communication'\nI1\ndd."),
            "capacity: entry 1 (key 7): \"computation\" is 0, expected a number from 1e-9 to 1e9");
  // Its inverse is no rate.
  EXPECT_THAT(capacity_refusal("(I7\n(S'computation'\nF1e-308\nS'communication'\nI1\ndd."),
              HasSubstr("expected a number from 1e-9 to 1e9"));
  EXPECT_EQ(capacity_refusal("(I7\n(S'computation'\nFnan\nS'communication'\nI1\ndd."),
            "capacity: entry 1 (key 7): \"computation\" is nan, expected a number from 1e-9 to 1e9");
  EXPECT_THAT(capacity_refusal("cos\nsystem\n."), HasSubstr("capacity: byte 0: the opcode 0x63"));
}

TEST_F(Traces, BehaviourMistakesNameTheirPlace) {
  const auto entry = [](const std::string& active, const std::string& inactive, const std::string& finish) {
    return "(S'd'\n(S'active'\n(" + active + "lS'inactive'\n(" + inactive + "lS'finish_time'\n" + finish + "dd.";
  };
  EXPECT_EQ(behaviour_refusal(entry("I1\n", "I2\n", "I10\n")), "made");
  EXPECT_EQ(behaviour_refusal(entry("I1\nI5\n", "I2\n", "I10\n")), "made");  // on when the trace ends
  EXPECT_EQ(behaviour_refusal(entry("I3\n", "I2\n", "I10\n")),
            "behaviour: entry 1 (key \"d\"): \"inactive\"[0] is before \"active\"[0]");
  EXPECT_EQ(behaviour_refusal(entry("I3\n", "I4\nI5\n", "I10\n")),
            "behaviour: entry 1 (key \"d\"): \"active\" has 1 times and \"inactive\" 2, expected as many");
  EXPECT_EQ(behaviour_refusal(entry("I-3\n", "I4\n", "I10\n")),
            "behaviour: entry 1 (key \"d\"): \"active\"[0] is -3, expected seconds from 0 to 1e9");
  EXPECT_EQ(behaviour_refusal(entry("I3\n", "I4\n", "I0\n")),
            "behaviour: entry 1 (key \"d\"): \"finish_time\" is 0, expected a number from 1e-9 to 1e9");
}

TEST_F(Traces, WindowsMayOverlapAndRunOver) {
  const auto made = make_devices(
      {.availability = "fedscale",
       .availability_file = folder_.write("b",
                                          "(I1\n(S'active'\n(I50\nI0\nI20\nlS'inactive'\n(I900\nI30\nI40\nl"
                                          "S'finish_time'\nI100\ndI2\n(S'active'\n(lS'inactive'\n(lS'finish_time'\n"
                                          "I9\ndI3\n(S'active'\n(I0\nlS'inactive'\n(I9\nlS'finish_time'\nI9\ndd.")},
      1);
  ASSERT_TRUE(made) << made.error().message();
  const Devices& devices = **made;
  EXPECT_EQ(devices.availability(0, {seconds(100)}).until->since_start, seconds(140));  // 0-30 and 20-40 are one
  EXPECT_FALSE(devices.availability(0, {seconds(45)}).reachable);
  EXPECT_EQ(devices.availability(0, {seconds(50)}).until->since_start, seconds(100));
  EXPECT_FALSE(devices.availability(1, {seconds(4)}).reachable);  // never on
  EXPECT_FALSE(devices.availability(1, {seconds(4)}).until.has_value());
  EXPECT_TRUE(devices.availability(2, {seconds(4)}).reachable);  // always on
  EXPECT_FALSE(devices.availability(2, {seconds(4)}).until.has_value());
}

}  // namespace
}  // namespace gleaner::simulation
