// Every mistake with certificates, as people meet it: one line on each side that says what is wrong, said again only
// when it changes. A daemon ends for its own bad configuration and keeps trying for the far side's.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>

#include "common/clock.hpp"
#include "tests/integration/harness/fake_device.hpp"

namespace gleaner::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kDay = 86'400;
constexpr Ended kBadConfiguration{.exit_code = 2};

pki::Validity between(std::int64_t days_from, std::int64_t days_to) {
  const std::int64_t now = system_clock().wall_unix_ms() / 1000;
  return {.not_before_unix_s = now + days_from * kDay, .not_after_unix_s = now + days_to * kDay};
}

// A CA that is valid for longer than what it issues here, so that it cuts nothing.
void make_wide_ca(const World& world) {
  ASSERT_TRUE(pki::make_ca("wide", between(-100, 100), {world.path("wide.crt"), world.path("wide.key")}));
}

void reissue_for_coordinator(const World& world, const std::string& ca, const pki::Validity& validity,
                             const std::string& name = "server") {
  world.issue(
      ca,
      {.role = pki::Role::coordinator, .name = name, .addresses = {"localhost", "127.0.0.1"}, .validity = validity});
}

int listen_on(std::uint16_t port) {
  const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  ::setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::bind(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(::listen(server, 8), 0);
  return server;
}

void say_in_plain_text(std::uint16_t port, const std::string& text) {
  const int peer = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(peer, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_GT(::send(peer, text.data(), text.size(), MSG_NOSIGNAL), 0);
  std::array<char, 256> answer{};
  while (::recv(peer, answer.data(), answer.size(), 0) > 0) {
  }
  ::close(peer);
}

TEST(OwnCertificate, expired_ends_either_daemon) {
  World world(1);
  make_wide_ca(world);
  world.issue("wide", {.name = "late", .addresses = {}, .validity = between(-10, -1)});
  reissue_for_coordinator(world, "wide", between(-10, -1));
  world.configure_client(0, {.certificate = "late", .ca = "wide"});
  EXPECT_EQ(world.start_client(0).wait(kPatience), std::optional(kBadConfiguration));
  EXPECT_THAT(world.client_log(0), HasSubstr("expired"));
  world.configure({.certificate = "server", .ca = "wide"});
  EXPECT_EQ(world.launch_coordinator().wait(kPatience), std::optional(kBadConfiguration));
  EXPECT_THAT(world.coordinator_log(), HasSubstr("expired"));
}

TEST(OwnCertificate, not_valid_yet_blames_the_clock_and_a_device_waits_for_it) {
  World world(1);
  make_wide_ca(world);
  world.issue("wide", {.name = "early", .addresses = {}, .validity = between(1, 10)});
  reissue_for_coordinator(world, "wide", between(1, 10));
  world.configure_client(0, {.certificate = "early", .ca = "wide"});
  world.start_client(0);
  ASSERT_TRUE(eventually([&] { return count_lines(world.client_log(0), "clock") > 0; })) << world.client_log(0);
  EXPECT_TRUE(world.client(0).running()) << "a clock sets itself";
  world.client(0).signal(SIGTERM);
  EXPECT_TRUE(world.client(0).wait(seconds(5))) << "it can be ended while it waits";
  world.configure({.certificate = "server", .ca = "wide"});
  EXPECT_EQ(world.launch_coordinator().wait(kPatience), std::optional(kBadConfiguration));
  const std::string log = world.coordinator_log();
  EXPECT_EQ(count_lines(log, "clock"), 1U) << log;
  for (const char* part : {"server.crt", "is not valid before 20", "clock says 20"}) EXPECT_THAT(log, HasSubstr(part));
}

TEST(OwnCertificate, a_key_that_does_not_match_ends_either_daemon) {
  World world(2);
  std::filesystem::copy_file(world.path("device-1.key"), world.path("device-0.key"),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(world.start_client(0).wait(kPatience), std::optional(kBadConfiguration));
  EXPECT_THAT(world.client_log(0), HasSubstr("device-0.key"));
  std::filesystem::copy_file(world.path("device-1.key"), world.path("coordinator.key"),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(world.launch_coordinator().wait(kPatience), std::optional(kBadConfiguration));
  EXPECT_THAT(world.coordinator_log(), HasSubstr("coordinator.key"));
}

// What the client's first try says about the coordinator, and that a device is still there after it.
void expect_client_says(World& world, const std::string& text) {
  world.start_client(0);
  ASSERT_TRUE(eventually([&] { return count_lines(world.client_log(0), text) > 0; })) << world.client_log(0);
  EXPECT_TRUE(world.client(0).running()) << "the far side's fault ends no daemon";
}

TEST(FarCertificate, from_an_unknown_ca_is_said_on_both_sides_and_tried_again) {
  World world(1);
  world.issue("other", {.name = "stranger", .addresses = {}, .validity = world.valid()});
  world.configure_client(0, {.certificate = "stranger", .ca = "other"});
  world.start_coordinator();
  expect_client_says(world, "unknown CA");
  ASSERT_TRUE(eventually([&] { return count_lines(world.coordinator_log(), "unknown CA") > 0; }));
  EXPECT_EQ(count_lines(world.client_log(0), "unknown CA"), 1U);
  world.client(0).kill();
  world.configure_client(0);
  world.start_client(0);
  EXPECT_TRUE(eventually([&] { return world.metric("gleaner_devices_connected") == 1.0; }));
  world.end_all();
}

TEST(FarCertificate, of_another_name_names_both) {
  World world(1);
  world.configure_client(0, {.server_name = "elsewhere.example"});
  world.start_coordinator();
  expect_client_says(world, "not for elsewhere.example");
  EXPECT_THAT(world.client_log(0), HasSubstr("localhost"));
  ASSERT_TRUE(eventually([&] { return count_lines(world.coordinator_log(), "connection from 127.0.0.1") > 0; }));
  world.end_all();
}

TEST(FarCertificate, of_the_same_stranger_is_logged_once_and_holds_up_nobody) {
  World world(1);
  world.issue("other", {.name = "stranger", .addresses = {}, .validity = world.valid()});
  world.write("both.crt", world.read("ca.crt") + world.read("other.crt"));
  world.start_coordinator();
  FakeDevice stranger(world, "stranger", "both");
  for (int i = 0; i < 4; ++i) {
    const Status connected = stranger.connect();
    EXPECT_TRUE(connected) << connected.error().message();
    EXPECT_TRUE(stranger.is_dropped());
    EXPECT_THAT(stranger.end(), HasSubstr("unknown CA"));
  }
  world.start_client(0);
  ASSERT_TRUE(eventually([&] { return world.metric("gleaner_devices_connected") == 1.0; }));
  EXPECT_EQ(count_lines(world.coordinator_log(), "unknown CA"), 1U);
  world.end_all();
}

TEST(PlainText, to_the_coordinator_is_named_once_and_dropped) {
  World world(1);
  world.start_coordinator();
  for (int i = 0; i < 3; ++i) say_in_plain_text(world.port(), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return count_lines(world.coordinator_log(), "does not speak TLS") > 0; }));
  EXPECT_EQ(count_lines(world.coordinator_log(), "does not speak TLS"), 1U);
  world.start_client(0);
  EXPECT_TRUE(eventually([&] { return world.metric("gleaner_devices_connected") == 1.0; }));
  world.end_all();
}

TEST(PlainText, from_what_listens_in_the_coordinators_place_is_named_once_and_tried_again) {
  World world(1);
  const int server = listen_on(world.port());
  world.start_client(0);
  for (int i = 0; i < 4; ++i) {
    const int peer = ::accept4(server, nullptr, nullptr, SOCK_CLOEXEC);
    ASSERT_GE(peer, 0);
    const std::string text = "220 mail.example ESMTP\r\n";
    EXPECT_GT(::send(peer, text.data(), text.size(), MSG_NOSIGNAL), 0);
    std::array<char, 4096> answer{};
    while (::recv(peer, answer.data(), answer.size(), 0) > 0) {
    }
    ::close(peer);
  }
  ::close(server);
  EXPECT_EQ(count_lines(world.client_log(0), "does not speak TLS"), 1U) << world.client_log(0);
  world.start_coordinator();
  EXPECT_TRUE(eventually([&] { return world.metric("gleaner_devices_connected") == 1.0; }));
  // The coordinator counts the device at its hello, which is before the device hears the welcome.
  EXPECT_TRUE(eventually([&] { return count_lines(world.client_log(0), "connected again") == 1U; }));
  world.end_all();
}

}  // namespace
}  // namespace gleaner::testing
