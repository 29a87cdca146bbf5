// The coordinator's disk: full, and put back from a backup.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/text.hpp"
#include "coordinator/admin/target.hpp"
#include "tests/integration/harness/world.hpp"

namespace gleaner::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kDevices = 2;

// A file system of a few megabytes in a mount namespace of this process, with which it goes.
bool mount_small_disk(const std::string& folder) {
  std::filesystem::create_directory(folder);
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  return ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=24m") == 0;
}

// Takes all that is left but so many bytes.
void fill_but(const std::string& file, std::uintmax_t room_bytes) {
  std::ofstream out(file, std::ios::binary);
  const std::string block(64 << 10, 'x');
  while (out.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
  }
  out.close();
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - room_bytes);
}

RunOptions run_options() { return {.recipe = "gsasg", .rounds = 20, .devices = kDevices}; }

std::string hash_with_room() {
  World world(kDevices);
  world.start_coordinator();
  world.start_run(run_options());
  world.start_clients();
  return world.finish();
}

class FullDisk : public ::testing::TestWithParam<std::uintmax_t> {};

TEST_P(FullDisk, suspends_the_run_tells_nobody_included_and_goes_on_when_there_is_room) {
  const std::string expected = hash_with_room();
  World world(kDevices);
  ASSERT_TRUE(mount_small_disk(world.path("disk"))) << "a small file system is needed here: " << std::strerror(errno);
  world.configure({.database = "disk/coordinator.db"});
  world.start_coordinator();
  world.start_run(run_options());
  fill_but(world.path("disk/ballast"), GetParam());
  world.start_clients();
  const auto waiting_for = [&] {
    const json::value run = world.run();
    return run.is_object() ? std::string(run.at("waiting_for").as_string()) : "";
  };
  ASSERT_TRUE(eventually([&] { return waiting_for().starts_with("suspended"); })) << json::serialize(world.run());
  const std::uint32_t committed = world.version();
  const std::string shown = world.gleaner({"run", "show", "run"});
  EXPECT_THAT(shown, HasSubstr("suspended"));
  EXPECT_THAT(shown, HasSubstr("\nbecause     "));
  EXPECT_THAT(shown, HasSubstr("full"));
  EXPECT_TRUE(world.coordinator().running());
  const json::value health = world.get("/healthz");
  ASSERT_TRUE(health.is_object()) << "a full disk is no reason to start it again";
  EXPECT_FALSE(health.at("serving").as_bool());
  EXPECT_THAT(std::string(health.at("reason").as_string()), HasSubstr("full"));
  EXPECT_FALSE(world.ask("/readyz")) << "503";
  EXPECT_EQ(world.metric("gleaner_run_suspended{run=\"run\"}"), 1.0);
  for (std::uint32_t i = 0; i < kDevices; ++i) {
    EXPECT_LE(count_lines(world.client_log(i), ": included"), committed) << "told before it was on disk";
  }
  EXPECT_EQ(world.version(), committed);
  std::filesystem::remove(world.path("disk/ballast"));
  EXPECT_EQ(world.finish(), expected);
  EXPECT_TRUE(world.ask("/readyz"));
  EXPECT_EQ(world.metric("gleaner_inflight_payload_bytes"), 0.0);
  world.end_all();
  ::umount2(world.path("disk").c_str(), MNT_DETACH);
}

INSTANTIATE_TEST_SUITE_P(Room, FullDisk, ::testing::Values(0U, 256U << 10, 768U << 10));

// A file that was moved away takes nothing, like a full disk.
TEST(NoRoom, for_the_end_of_a_run_is_waited_for_and_said) {
  World world(kDevices);
  world.start_coordinator();
  world.start_run({.rounds = 10'000, .devices = kDevices});
  world.start_run({.name = "next", .rounds = 3, .devices = kDevices});
  world.start_clients();
  ASSERT_TRUE(world.reaches(2));
  std::filesystem::rename(world.path("coordinator.db"), world.path("aside.db"));
  int code = 0;
  const std::string paused = world.gleaner({"run", "pause", "run"}, &code);
  EXPECT_EQ(code, 1) << paused;
  EXPECT_EQ(world.state(), "active") << "as it was";
  const std::string said = world.gleaner({"run", "stop", "run", "--yes"}, &code);
  EXPECT_EQ(code, 1) << said;
  EXPECT_THAT(world.gleaner({"run", "list"}), HasSubstr("stopping"));
  EXPECT_THAT(world.gleaner({"run", "show", "run"}), HasSubstr("waits for room in the database"));
  const json::value health = world.get("/healthz");
  ASSERT_TRUE(health.is_object());
  EXPECT_FALSE(health.at("serving").as_bool());
  EXPECT_THAT(std::string(health.at("reason").as_string()), HasSubstr("run run is stopped"));
  EXPECT_FALSE(world.ask("/readyz")) << "503";
  EXPECT_EQ(world.metric("gleaner_run_suspended{run=\"run\"}"), 1.0);
  std::filesystem::rename(world.path("aside.db"), world.path("coordinator.db"));
  EXPECT_TRUE(eventually([&] { return world.state() == "stopped"; }));
  EXPECT_TRUE(world.ask("/readyz"));
  EXPECT_NE(world.finish("next"), "") << "the next one begins by itself";
  world.end_all();
}

TEST(Backup, put_back_while_devices_are_ahead_starts_a_new_lineage_and_the_run_ends) {
  World world(kDevices);
  const RunOptions options{.recipe = "topk", .rounds = 100, .devices = kDevices};
  world.start_coordinator();
  world.start_run(options);
  world.start_clients();
  ASSERT_TRUE(world.reaches(3));
  const std::string copy = world.path("copy.db");
  const auto backed_up = world.tell("/v1/database/backup?path=" + admin::encode_component(copy));
  ASSERT_TRUE(backed_up) << backed_up.error().message();
  const std::uint32_t backup_version = world.version();
  ASSERT_TRUE(world.reaches(backup_version + 5));
  const std::string lineage(world.run().at("lineage").as_string());
  world.coordinator().kill();
  std::filesystem::copy_file(copy, world.path("coordinator.db"), std::filesystem::copy_options::overwrite_existing);
  world.start_coordinator();
  EXPECT_NE(world.run().at("lineage").as_string(), lineage);
  EXPECT_THAT(world.coordinator_log(), HasSubstr("was restored from a backup"));
  EXPECT_NE(world.finish(), "");
  for (std::uint32_t i = 0; i < kDevices; ++i) {
    EXPECT_THAT(world.client_log(i), HasSubstr(": abandoned")) << "its open update is put back";
    const auto state = world.device_state(i, options);
    ASSERT_TRUE(state) << state.error().message();
    EXPECT_EQ(state->version.value, options.rounds - 1) << "the base of the last round";
    EXPECT_NE(to_hex(state->lineage.value), lineage);
  }
  world.end_all();
}

}  // namespace
}  // namespace gleaner::testing
