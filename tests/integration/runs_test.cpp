// Several runs on one coordinator, and what an operator does to them.
#include <filesystem>

#include "tests/integration/harness/world.hpp"

namespace gleaner::testing {
namespace {

constexpr std::uint32_t kDevices = 2;

TEST(Runs, a_second_run_waits_for_the_first_and_devices_keep_both_states) {
  World world(kDevices);
  world.start_coordinator();
  world.start_run({.name = "first", .rounds = 15, .devices = kDevices});
  world.start_run({.name = "second", .recipe = "gsasg", .rounds = 5, .devices = kDevices});
  EXPECT_TRUE(eventually([&] { return world.state("first") == "active"; }));
  EXPECT_EQ(world.state("second"), "waiting");
  world.start_clients();
  EXPECT_NE(world.finish("first"), "");
  EXPECT_NE(world.finish("second"), "");
  EXPECT_EQ(world.metric("gleaner_run_state{run=\"first\",state=\"finished\"}"), 1.0);
  EXPECT_EQ(world.metric("gleaner_run_version{run=\"first\"}"), 15.0);
  EXPECT_EQ(world.metric("gleaner_run_version{run=\"second\"}"), 5.0);
  const std::string page = world.ask("/").value_or("");
  for (const char* part : {"<td>first<br>", "<td>second<br>", "<td>device-1</td>"}) {
    EXPECT_THAT(page, ::testing::HasSubstr(part));
  }
  const std::filesystem::directory_iterator states(world.path("state-device-0"));
  const auto is_state = [](const auto& entry) { return entry.path().extension() == ".state"; };
  EXPECT_EQ(std::count_if(begin(states), end(states), is_state), 2);
  world.end_all();
}

TEST(Runs, a_waiting_run_ends_like_one_that_never_waited) {
  const RunOptions options{.name = "second", .rounds = 5, .devices = kDevices};
  std::string alone;
  {
    World world(kDevices);
    world.start_coordinator();
    world.start_run(options);
    world.start_clients();
    alone = world.finish("second");
  }
  World world(kDevices);
  world.start_coordinator();
  world.start_run(
      {.name = "first", .rounds = 10'000, .devices = kDevices, .reproducible = false, .cohort = "deadline = \"1s\"\n"});
  world.start_run(options);
  world.start_clients();
  ASSERT_TRUE(world.reaches(3, "first"));
  const auto stopped = world.tell("/v1/runs/first/stop");
  ASSERT_TRUE(stopped) << stopped.error().message();
  EXPECT_EQ(world.finish("second"), alone);
  EXPECT_EQ(world.state("first"), "stopped");
  world.end_all();
}

// Bytes of a round that a stop cuts off were sent all the same.
TEST(Runs, a_stop_takes_nothing_from_what_was_counted) {
  World world(kDevices);
  world.start_coordinator();
  world.start_run({.name = "first", .rounds = 10'000, .devices = kDevices});
  world.start_run({.name = "second", .rounds = 5, .devices = kDevices});
  EXPECT_EQ(world.run("second").at("waiting_for").as_string(), "its turn behind run first");
  EXPECT_THAT(world.gleaner({"run", "show", "second"}), ::testing::HasSubstr("its turn behind run first"));
  world.start_clients();
  ASSERT_TRUE(world.reaches(3, "first"));
  const auto up = [&] { return world.run("first").at("traffic").at("up_bytes").to_number<std::uint64_t>(); };
  const std::uint64_t before = up();
  ASSERT_GT(before, 0U);
  ASSERT_TRUE(world.tell("/v1/runs/first/stop"));
  EXPECT_GE(up(), before);
  EXPECT_EQ(world.run("first").at("devices").at("known").as_int64(), kDevices);
  const std::uint64_t stopped = up();
  world.finish("second");
  world.end_all();
  world.start_coordinator();
  EXPECT_EQ(up(), stopped);
  EXPECT_EQ(world.run("first").at("devices").at("known").as_int64(), kDevices);
  world.end_all();
}

TEST(Runs, a_device_whose_files_miss_a_label_takes_part) {
  World world(kDevices);
  std::filesystem::create_directory(world.path("few"));
  std::filesystem::copy_file(world.path("data/train-images-idx3-ubyte"), world.path("few/train-images-idx3-ubyte"));
  std::string labels = world.read("data/train-labels-idx1-ubyte");
  ASSERT_NE(labels.find('\x09', 8), std::string::npos);
  std::replace(labels.begin() + 8, labels.end(), '\x09', '\x00');
  world.write("few/train-labels-idx1-ubyte", labels);
  world.write("device-0.toml", world.read("device-0.toml") + "[data.marks]\npath = \"data\"\n");
  world.write("device-1.toml", world.read("device-1.toml") + "[data.marks]\npath = \"few\"\n");
  world.start_coordinator();
  world.start_run({.rounds = 3, .devices = kDevices, .data = "marks"});
  world.start_clients();
  EXPECT_NE(world.finish(), "");
  EXPECT_EQ(count_lines(world.coordinator_log(), "declines"), 0U) << world.coordinator_log();
  world.end_all();
}

TEST(Runs, pause_holds_a_run_over_a_restart_and_resume_lets_it_go_on) {
  World world(kDevices);
  world.start_coordinator();
  world.start_run({.rounds = 60, .devices = kDevices});
  world.start_clients();
  ASSERT_TRUE(world.reaches(3));
  ASSERT_TRUE(world.tell("/v1/runs/run/pause"));
  ASSERT_TRUE(eventually([&] { return world.run().at("phase").as_string() == "waiting"; }))
      << json::serialize(world.run());
  const std::uint32_t held = world.version();
  world.coordinator().kill();
  world.start_coordinator();
  EXPECT_EQ(world.state(), "paused");
  ASSERT_TRUE(eventually([&] { return world.run().at("devices").at("connected").to_number<int>() == int{kDevices}; }));
  EXPECT_EQ(world.version(), held);
  ASSERT_TRUE(world.tell("/v1/runs/run/resume"));
  EXPECT_NE(world.finish(), "");
  world.end_all();
}

TEST(Runs, what_cannot_be_done_is_said) {
  World world(kDevices);
  world.start_coordinator();
  world.start_run({.rounds = 5, .devices = kDevices});
  EXPECT_EQ(world.tell("/v1/runs/other/pause").error().code(), ErrorCode::not_found);
  EXPECT_EQ(world.tell("/v1/runs/other/stop").error().code(), ErrorCode::not_found);
  const auto again = world.tell("/v1/runs?path=/run.toml", World::run_file({.rounds = 5, .devices = kDevices}));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), ErrorCode::conflict) << again.error().message();
  ASSERT_TRUE(world.tell("/v1/runs/run/stop"));
  EXPECT_EQ(world.tell("/v1/runs/run/stop").error().code(), ErrorCode::conflict);
  world.end_all();
}

}  // namespace
}  // namespace gleaner::testing
