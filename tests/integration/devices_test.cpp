// Devices that go and come back, share a certificate, are thrown out, or have a bad disk; and the ends of both daemons.
#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/integration/harness/fake_device.hpp"

namespace gleaner::testing {
namespace {

using ::testing::HasSubstr;

// A run that closes its rounds without everybody; what it needs to go on is `devices`.
RunOptions loose_run(std::uint32_t devices, std::uint32_t rounds, const std::string& cohort) {
  return {.rounds = rounds, .devices = devices, .reproducible = false, .cohort = cohort};
}

bool connected(const World& world, const std::string& device) {
  const json::value shown = world.device(device);
  return shown.is_object() && shown.at("connected").as_bool();
}

TEST(OneCertificate, the_newest_daemon_wins_and_the_older_waits) {
  World world(2);
  // As in real files, a device may wait as long as the coordinator asks it to.
  world.configure_client(0, {.retry_max = "5m"});
  world.configure_client(1, {.certificate = "device-0", .state = "state-twin", .retry_max = "5m"});
  world.start_coordinator();
  world.start_client(0);
  ASSERT_TRUE(eventually([&] { return connected(world, "device-0"); }));
  world.start_client(1);
  ASSERT_TRUE(eventually([&] { return count_lines(world.client_log(0), "another client with this device's") > 0; }));
  EXPECT_THAT(world.coordinator_log(), HasSubstr("is superseded"));
  world.start_run(loose_run(1, 8, "deadline = \"5s\"\n"));
  EXPECT_NE(world.finish(), "");
  EXPECT_GE(count_lines(world.client_log(1), "update"), 8U) << "the newer one does the work";
  EXPECT_EQ(count_lines(world.client_log(0), "round "), 0U) << "the older one waits";
  EXPECT_TRUE(world.client(0).running());
  EXPECT_EQ(count_lines(world.coordinator_log(), "device device-0 connected from"), 2U);
  EXPECT_EQ(count_lines(world.client_log(0), "another client with this device's"), 1U) << "said once";
  world.end_all();
}

TEST(OneCertificate, flapping_is_quarantined_and_shown) {
  World world(1);
  world.start_coordinator();
  FakeDevice device(world, "device-0");
  std::optional<Failure> failure;
  for (int i = 0; i < 20 && !failure; ++i) {
    ASSERT_TRUE(device.connect());
    device.hello();
    const auto answer = device.next();
    ASSERT_TRUE(answer) << device.end();
    if (const auto* failed = std::get_if<Failure>(&answer->message)) failure = *failed;
    device.forget();
  }
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, FailureCode::quarantined);
  EXPECT_GT(failure->retry_after_ms, 60'000U);
  EXPECT_THAT(world.gleaner({"devices"}), HasSubstr("quarantined"));
  EXPECT_EQ(world.metric("gleaner_devices_quarantined"), 1.0);
  world.end_all();
}

class Yesterday : public ::testing::TestWithParam<const char*> {};

TEST_P(Yesterday, a_device_that_was_away_for_many_rounds_is_brought_up_to_date) {
  World world(3);
  const RunOptions options = loose_run(2, 200, std::string("quorum = 0.6\ndeadline = \"5s\"\n") + GetParam());
  world.start_coordinator();
  world.start_run(options);
  world.start_clients();
  ASSERT_TRUE(eventually([&] { return count_lines(world.client_log(2), ": included") >= 2; }));
  world.client(2).signal(SIGTERM);
  ASSERT_EQ(world.client(2).wait(kPatience), std::optional(Ended{.exit_code = 0}));
  const auto before = world.device_state(2, options);
  ASSERT_TRUE(before) << before.error().message();
  ASSERT_TRUE(world.reaches(before->version.value + 20));
  const std::size_t included = count_lines(world.client_log(2), ": included");
  world.start_client(2);
  ASSERT_TRUE(eventually([&] { return count_lines(world.client_log(2), ": included") > included + 1; }));
  const auto after = world.device_state(2, options);
  ASSERT_TRUE(after) << after.error().message();
  EXPECT_GE(after->version.value, before->version.value + 20);
  world.end_all();
}

INSTANTIATE_TEST_SUITE_P(By, Yesterday, ::testing::Values("", "\n[server]\npatches_kept = 4\n"));

TEST(DamagedState, is_named_and_nothing_is_overwritten) {
  World world(2);
  const RunOptions options{.rounds = 40, .devices = 2};
  world.start_coordinator();
  world.start_run(options);
  world.start_clients();
  ASSERT_TRUE(world.reaches(3));
  world.client(0).kill();
  const std::string file = world.state_file(0);
  const std::string name = "state-device-0/" + std::filesystem::path(file).filename().string();
  std::string content = world.read(name);
  content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 1);
  world.write(name, content);
  world.start_client(0);
  ASSERT_TRUE(eventually([&] { return count_lines(world.client_log(0), "is damaged") > 0; }));
  EXPECT_THAT(world.client_log(0), HasSubstr("its checksum does not match"));
  ASSERT_TRUE(eventually([&] { return count_lines(world.coordinator_log(), "does not work for run") > 0; }));
  EXPECT_EQ(world.read(name), content) << "what can still be saved is left alone";
  world.client(0).signal(SIGTERM);
  ASSERT_EQ(world.client(0).wait(kPatience), std::optional(Ended{.exit_code = 0}));
  std::filesystem::rename(file, world.path("moved-away"));
  world.start_client(0);
  EXPECT_NE(world.finish(), "") << "it begins anew";
  world.end_all();
}

class KilledMidRound : public ::testing::TestWithParam<const char*> {};

TEST_P(KilledMidRound, the_round_closes_without_it_and_its_late_update_enters) {
  World world(3);
  world.start_coordinator();
  world.start_run(loose_run(3, 100, GetParam()));
  world.start_client(1);
  world.start_client(2);
  ASSERT_EQ(world.start_client(0, kill_at("client.answer.stored:3")).wait(kPatience), std::optional(kKilled));
  const auto counter = [&](const char* name) { return world.run().at("counters").at(name).to_number<int>(); };
  const auto waits = [&] {
    return world.run().at("waiting_for").as_string() == "waiting for devices: 2 ready, 3 needed";
  };
  ASSERT_TRUE(eventually(waits)) << "the round waits for ever: " << json::serialize(world.run());
  const int late_before = counter("late_uploads");
  const std::size_t already = world.client_log(0).size();
  world.start_client(0);
  ASSERT_TRUE(eventually([&] { return counter("late_uploads") > late_before; }));
  EXPECT_NE(world.finish(), "");
  const std::string since = world.client_log(0).substr(already);
  EXPECT_LT(since.find(": included"), since.find(": update,")) << "what it had stored enters before new work";
  EXPECT_EQ(count_lines(since, ": abandoned") + count_lines(since, ": stale"), 0U) << "nothing of it was lost";
  world.end_all();
}

INSTANTIATE_TEST_SUITE_P(Closed, KilledMidRound,
                         ::testing::Values("quorum = 0.6\ndeadline = \"60s\"\n", "quorum = 1.0\ndeadline = \"3s\"\n"));

TEST(Signals, both_ends_end_cleanly_and_devices_come_back) {
  const RunOptions options{.rounds = 60, .devices = 2};
  std::string expected;
  {
    World world(2);
    world.start_coordinator();
    world.start_run(options);
    world.start_clients();
    expected = world.finish();
  }
  World world(2);
  world.start_coordinator();
  world.start_run(options);
  world.start_clients();
  ASSERT_TRUE(world.reaches(3));
  world.coordinator().signal(SIGTERM);
  EXPECT_EQ(world.coordinator().wait(seconds(5)), std::optional(Ended{.exit_code = 0}));
  EXPECT_FALSE(std::filesystem::exists(world.path("admin.sock")));
  world.client(0).signal(SIGTERM);
  EXPECT_EQ(world.client(0).wait(seconds(5)), std::optional(Ended{.exit_code = 0}));
  EXPECT_TRUE(world.client(1).running());
  world.start_coordinator();
  world.start_client(0);
  EXPECT_EQ(world.finish(), expected);
  world.end_all();
}

TEST(Signals, sighup_reads_the_deny_list_and_the_certificates_again) {
  World world(2);
  world.write("deny.txt", "# nobody\n");
  world.configure({.tls = "deny_list = \"deny.txt\"\n"});
  world.start_coordinator();
  world.start_clients();
  ASSERT_TRUE(eventually([&] { return connected(world, "device-0") && connected(world, "device-1"); }));
  world.issue("ca", {.name = "visitor", .addresses = {}, .validity = world.valid()});
  FakeDevice visitor(world, "visitor");
  ASSERT_TRUE(visitor.connect());
  const std::string serial = visitor.peer_serial();
  for (const char* file : {"coordinator.crt", "coordinator.key"}) std::filesystem::remove(world.path(file));
  world.issue("ca", {.role = pki::Role::coordinator,
                     .name = "coordinator",
                     .addresses = {"localhost", "127.0.0.1"},
                     .validity = world.valid()});
  world.write("deny.txt", "device-1  # lost\n");
  world.coordinator().signal(SIGHUP);
  ASSERT_TRUE(eventually([&] { return count_lines(world.coordinator_log(), "are read again") == 1; }));
  ASSERT_TRUE(eventually([&] { return !connected(world, "device-1"); })) << "it is thrown out";
  EXPECT_TRUE(connected(world, "device-0"));
  visitor.forget();
  ASSERT_TRUE(visitor.connect());
  EXPECT_NE(visitor.peer_serial(), serial) << "the new certificate is shown";
  world.write("coordinator.crt", "nonsense\n");
  world.coordinator().signal(SIGHUP);
  ASSERT_TRUE(eventually([&] { return count_lines(world.coordinator_log(), "old certificates stay in use") == 1; }));
  visitor.forget();
  EXPECT_TRUE(visitor.connect()) << "it goes on with the old ones";
  world.end_all();
}

TEST(Signals, sighup_ends_no_device_and_gives_it_its_new_certificate) {
  World world(1);
  world.start_coordinator();
  world.start_clients();
  ASSERT_TRUE(eventually([&] { return connected(world, "device-0"); }));
  const auto serial = [&] { return std::string(world.device("device-0").at("certificate_serial").as_string()); };
  const std::string first = serial();
  for (const char* file : {"device-0.crt", "device-0.key"}) std::filesystem::remove(world.path(file));
  world.issue("ca", {.name = "device-0", .addresses = {}, .validity = world.valid()});
  world.client(0).signal(SIGHUP);
  ASSERT_TRUE(eventually([&] { return count_lines(world.client_log(0), "are read again") == 1; }));
  EXPECT_TRUE(world.client(0).running());
  EXPECT_EQ(serial(), first) << "the open connection goes on";
  world.coordinator().kill();
  world.start_coordinator();
  EXPECT_TRUE(eventually([&] { return connected(world, "device-0") && serial() != first; }));
  world.write("device-0.crt", "nonsense\n");
  world.client(0).signal(SIGHUP);
  ASSERT_TRUE(eventually([&] { return count_lines(world.client_log(0), "old certificates stay in use") == 1; }));
  EXPECT_TRUE(world.client(0).running());
  world.end_all();
}

TEST(Revoked, a_name_that_nobody_has_is_not_found_unless_it_is_meant) {
  World world(1);
  world.start_coordinator();
  int code = 0;
  EXPECT_THAT(world.gleaner({"devices", "revoke", "device-O"}, &code), ::testing::Not(HasSubstr("turned away")));
  EXPECT_EQ(code, 4);
  EXPECT_EQ(world.metric("gleaner_devices_revoked"), 0.0);
  world.gleaner({"devices", "revoke", "device-0", "--unseen"}, &code);
  EXPECT_EQ(code, 0);
  world.start_client(0);
  EXPECT_TRUE(eventually([&] { return count_lines(world.client_log(0), "may not take part") > 0; }));
  world.end_all();
}

// The state's new file cannot be made for a while, as on a full disk.
TEST(StateDisk, that_takes_nothing_holds_a_reproducible_run_up_until_it_does) {
  const RunOptions options{.rounds = 80, .devices = 2};
  std::string expected;
  {
    World calm(2);
    calm.start_coordinator();
    calm.start_run(options);
    calm.start_clients();
    expected = calm.finish();
  }
  World world(2);
  world.start_coordinator();
  world.start_run(options);
  world.start_clients();
  ASSERT_TRUE(world.reaches(1));
  ASSERT_TRUE(eventually([&] { return !world.state_file(1).empty(); }));
  const std::string beside = world.state_file(1) + ".new";
  // It may be just being written.
  ASSERT_TRUE(eventually([&] {
    std::error_code ignored;
    return std::filesystem::create_directory(beside, ignored) && std::filesystem::is_directory(beside);
  }));
  ASSERT_TRUE(eventually([&] { return count_lines(world.coordinator_log(), "does not work for run") > 0; }));
  EXPECT_THAT(world.gleaner({"devices"}), HasSubstr("device-1 does not work: plan "));
  EXPECT_TRUE(connected(world, "device-1"));
  std::filesystem::remove(beside);
  EXPECT_EQ(world.finish(), expected);
  EXPECT_EQ(std::string(world.device("device-1").at("declined").as_string()), "");
  EXPECT_EQ(world.metric("gleaner_devices_quarantined"), 0.0);
  world.end_all();
}

TEST(StateDisk, with_a_damaged_file_is_told_to_the_operator_and_mended_without_a_restart) {
  World world(1);
  world.start_coordinator();
  world.start_run({.rounds = 40, .devices = 1});
  world.start_client(0);
  ASSERT_TRUE(world.reaches(2));
  world.client(0).kill();
  const std::string file = world.state_file(0);
  std::string bytes;
  {
    std::ifstream in(file, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::ofstream(file, std::ios::binary) << std::string(bytes.rbegin(), bytes.rend());
  world.start_client(0);
  ASSERT_TRUE(eventually([&] { return count_lines(world.coordinator_log(), "does not work for run") > 0; }));
  const std::string shown = world.gleaner({"devices"});
  EXPECT_THAT(shown, HasSubstr("declined"));
  EXPECT_THAT(shown, HasSubstr("is damaged (move its file out of the state directory to begin anew"));
  std::filesystem::remove(file);
  EXPECT_NE(world.finish(), "");
  world.end_all();
}

// What it said before it was set right is not said of it any more, though no run asks it.
TEST(Declined, a_device_that_comes_back_is_not_held_to_what_it_said) {
  World world(1);
  world.start_coordinator();
  world.start_run({.rounds = 10'000, .devices = 1, .data = "marks"});
  world.start_client(0);
  const auto reason = [&] {
    const auto device = world.device("device-0");
    return device.is_object() ? std::string(device.at("declined").as_string()) : "";
  };
  ASSERT_TRUE(eventually([&] { return !reason().empty(); }));
  world.client(0).kill();
  ASSERT_TRUE(world.tell("/v1/runs/run/stop"));
  world.write("device-0.toml", world.read("device-0.toml") + "[data.marks]\npath = \"data\"\n");
  world.start_client(0);
  ASSERT_TRUE(eventually([&] { return connected(world, "device-0"); }));
  EXPECT_EQ(reason(), "");
  world.end_all();
}

TEST(Revoked, a_device_is_thrown_out_stays_out_and_may_come_back_when_allowed) {
  World world(2);
  world.start_coordinator();
  world.start_clients();
  ASSERT_TRUE(eventually([&] { return connected(world, "device-0") && connected(world, "device-1"); }));
  ASSERT_TRUE(world.tell("/v1/devices/device-1/revoke"));
  ASSERT_TRUE(eventually([&] { return !connected(world, "device-1"); }));
  EXPECT_THAT(world.gleaner({"devices"}), HasSubstr("revoked"));
  ASSERT_TRUE(eventually([&] { return count_lines(world.client_log(1), "may not take part") > 0; }));
  world.coordinator().kill();
  world.start_coordinator();
  FakeDevice same(world, "device-1");
  ASSERT_TRUE(same.connect());
  same.hello();
  const auto failure = same.wait_for<Failure>();
  ASSERT_TRUE(failure) << same.end();
  EXPECT_EQ(failure->code, FailureCode::revoked) << "a restart does not forget it";
  ASSERT_TRUE(world.tell("/v1/devices/device-1/allow"));
  same.forget();
  ASSERT_TRUE(same.connect());
  same.hello();
  EXPECT_TRUE(same.wait_for<Welcome>());
  EXPECT_TRUE(world.client(1).running()) << "the daemon waits; it does not end";
  world.end_all();
}

}  // namespace
}  // namespace gleaner::testing
