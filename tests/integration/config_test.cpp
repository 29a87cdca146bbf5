// A wrong file: all of its mistakes at once, exit code 2, and nothing was begun.
#include <filesystem>

#include "tests/integration/harness/world.hpp"

namespace gleaner::testing {
namespace {

using ::testing::HasSubstr;

constexpr Ended kBadConfiguration{.exit_code = 2};

TEST(WrongFile, of_the_coordinator_is_explained_whole_and_nothing_is_started) {
  World world(1);
  world.write("coordinator.toml",
              "[coordinator]\nlisten = \"127.0.0.1:99999\"\ndatabas = \"coordinator.db\"\n"
              "[tls]\nca = \"nowhere.crt\"\ncertificate = \"coordinator.crt\"\n"
              "[admin]\nsocket = \"admin.sock\"\nhttp = \"127.0.0.1:0\"\n"
              "[limits]\nheartbeat = \"soon\"\n");
  EXPECT_EQ(world.launch_coordinator().wait(kPatience), std::optional(kBadConfiguration));
  const std::string log = world.coordinator_log();
  for (const char* part : {"coordinator.toml:2", "99999", "databas", "database", "nowhere.crt", "key", "heartbeat"}) {
    EXPECT_THAT(log, HasSubstr(part));
  }
  for (const char* file : {"admin.sock", "coordinator.db", "gleaner.db", "coordinator.db.lock", "gleaner.db.lock"}) {
    EXPECT_FALSE(std::filesystem::exists(world.path(file))) << file;
  }
}

TEST(WrongFile, of_a_device_is_explained_whole_and_nothing_is_started) {
  World world(1);
  world.write("device-0.toml",
              "[client]\ncoordinatr = \"127.0.0.1:1\"\nstate_directory = \"state-device-0\"\n"
              "[tls]\nca = \"ca.crt\"\ncertificate = \"device-0.crt\"\nkey = \"nowhere.key\"\n"
              "[retry]\nmin = \"1h\"\nmax = \"1s\"\n"
              "[data.toy]\npath = \"data\"\nsplit = \"fair\"\ndevices = 2\nindex = 5\n");
  EXPECT_EQ(world.start_client(0).wait(kPatience), std::optional(kBadConfiguration));
  const std::string log = world.client_log(0);
  for (const char* part :
       {"device-0.toml:2", "coordinatr", "coordinator", "nowhere.key", "retry.min", "fair", "index"}) {
    EXPECT_THAT(log, HasSubstr(part));
  }
  EXPECT_FALSE(std::filesystem::exists(world.path("state-device-0")));
}

TEST(WrongFile, of_a_run_is_explained_whole_and_no_run_is_made) {
  World world(1);
  world.start_coordinator();
  world.write("run.toml",
              "[run]\nname = \"run\"\nrecipe = \"gsag\"\nrounds = 0\n[model]\nname = \"mlp\"\n"
              "[data]\nname = \"toy\"\nheight = 8\nwidth = 8\nchannels = 1\nclasses = 10\n[cohort]\nquorum = 7\n");
  int exit_code = 0;
  const std::string said = world.gleaner({"run", "start", world.path("run.toml")}, &exit_code);
  EXPECT_EQ(exit_code, 2);
  for (const char* part : {"run.toml:3", "gsasg", "rounds", "quorum"}) EXPECT_THAT(said, HasSubstr(part));
  EXPECT_EQ(world.get("/v1/runs").at("runs").as_array().size(), 0U);
  world.end_all();
}

TEST(SecondDaemon, on_the_same_database_or_state_refuses_to_start) {
  World world(1);
  world.start_coordinator();
  world.start_client(0);
  ASSERT_TRUE(eventually([&] { return world.metric("gleaner_devices_connected") == 1.0; }));
  Process coordinator({.program = GLEANER_COORDINATOR,
                       .arguments = {"serve", "--config", world.path("coordinator.toml")},
                       .environment = {},
                       .log = world.path("second.log")});
  EXPECT_EQ(coordinator.wait(kPatience), std::optional(kBadConfiguration));
  EXPECT_THAT(world.log("second"), HasSubstr("coordinator.db"));
  Process client({.program = GLEANER_CLIENT,
                  .arguments = {"run", "--config", world.path("device-0.toml")},
                  .environment = {},
                  .log = world.path("third.log")});
  EXPECT_EQ(client.wait(kPatience), std::optional(kBadConfiguration));
  EXPECT_THAT(world.log("third"), HasSubstr("state-device-0"));
  EXPECT_EQ(world.metric("gleaner_devices_connected"), 1.0) << "the first ones go on";
  world.end_all();
}

}  // namespace
}  // namespace gleaner::testing
