// What peers may cost: those that say nothing, trickle, send garbage or too much, come in crowds, or never read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <optional>

#include "common/random.hpp"
#include "coordinator/admin/client.hpp"
#include "tests/coordinator/admin/fake_backend.hpp"
#include "tests/coordinator/admin/raw_peer.hpp"

namespace gleaner {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr const char* kListRuns = "GET /v1/runs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
constexpr const char* kListRunsAndStay = "GET /v1/runs HTTP/1.1\r\nHost: x\r\n\r\n";
constexpr const char* kMetrics = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

AdminLimits impatient() {
  AdminLimits limits;
  limits.request_timeout = 500ms;
  limits.answer_timeout = 200ms;
  limits.write_timeout = 500ms;
  return limits;
}

TEST(AdminPeers, ASilentOneIsDropped) {
  RunningServer server(impatient());
  for (const RawPeer& peer : {RawPeer::unix_socket(server.socket()), RawPeer::tcp(server.http_port())}) {
    EXPECT_TRUE(peer.closes_within(20s));
  }
  EXPECT_EQ(status_of(ask_unix(server.socket(), kListRuns)), 200);
}

TEST(AdminPeers, OneThatTricklesGainsNothing) {
  RunningServer server(impatient());
  const RawPeer peer = RawPeer::tcp(server.http_port());
  const auto began = std::chrono::steady_clock::now();
  int sent = 0;
  peer.send("GET /metrics HTTP/1.1\r\nX: ");
  while (!peer.closes_within(10ms) && std::chrono::steady_clock::now() - began < 20s) sent += peer.send("a") ? 1 : 0;
  EXPECT_LT(std::chrono::steady_clock::now() - began, 20s);
  EXPECT_GT(sent, 0);
}

TEST(AdminPeers, OneThatStopsInTheMiddleOfABodyIsDropped) {
  RunningServer server(impatient());
  const RawPeer peer = RawPeer::unix_socket(server.socket());
  peer.send("POST /v1/runs?path=%2Fa HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc");
  EXPECT_TRUE(peer.closes_within(20s));
  EXPECT_TRUE(server.backend().calls().empty());
}

TEST(AdminPeers, TooMuchIsRefused) {
  RunningServer server;
  const std::string long_header = "GET /v1/runs HTTP/1.1\r\nX: " + std::string(20'000, 'a') + "\r\n\r\n";
  EXPECT_EQ(status_of(ask_unix(server.socket(), long_header)), 431);
  EXPECT_EQ(status_of(ask_tcp(server.http_port(), long_header)), 431);
  const std::string body(3U << 20, 'a');
  const std::string head = "POST /v1/runs?path=%2Fa HTTP/1.1\r\nHost: x\r\n";
  EXPECT_EQ(status_of(ask_unix(server.socket(), head + "Content-Length: 3145728\r\n\r\n" + body)), 413);
  EXPECT_EQ(status_of(ask_unix(server.socket(), head + "Transfer-Encoding: chunked\r\n\r\n300000\r\n" + body)), 413);
  EXPECT_EQ(status_of(ask_unix(server.socket(), head + "Content-Length: 18446744073709551615\r\n\r\n")), 413);
  EXPECT_EQ(status_of(ask_tcp(server.http_port(), "GET /metrics HTTP/1.1\r\nContent-Length: 1\r\n\r\na")), 413);
  EXPECT_TRUE(server.backend().calls().empty());
}

TEST(AdminPeers, GarbageIsAnsweredWith400AndClosed) {
  RunningServer server;
  for (const std::string& garbage :
       {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11), std::string("hello\r\n\r\n"),
        std::string("GET\r\n\r\n"), std::string("GET /v1/runs HTTP/9.9\r\n\r\n"), std::string("\r\n\r\n\r\n\r\n"),
        std::string("GET /v1/runs HTTP/1.1\r\nContent-Length: -1\r\n\r\n"),
        std::string("GET /v1/runs HTTP/1.1\r\nBad Header\r\n\r\n")}) {
    const RawPeer peer = RawPeer::unix_socket(server.socket());
    peer.send(garbage);
    peer.finish();
    const std::string reply = peer.read_to_end();
    EXPECT_TRUE(reply.empty() || status_of(reply) == 400) << testing::PrintToString(garbage) << " " << reply;
  }
  EXPECT_TRUE(server.backend().calls().empty());
}

TEST(AdminPeers, RandomBytesDoNoHarm) {
  RunningServer server;
  Random random(7, Purpose::test);
  for (int i = 0; i < 200; ++i) {
    std::string bytes = i % 2 == 0 ? kListRunsAndStay : "";
    const std::uint32_t size = random.below(400);
    for (std::uint32_t j = 0; j < size; ++j) bytes.push_back(static_cast<char>(random.below(256)));
    const RawPeer peer = RawPeer::unix_socket(server.socket());
    peer.send(bytes);
    peer.finish();
    peer.read_to_end();
  }
  EXPECT_EQ(status_of(ask_unix(server.socket(), kListRuns)), 200);
}

TEST(AdminPeers, RequestsInARowAreAnsweredInOrder) {
  RunningServer server;
  const std::string replies =
      ask_unix(server.socket(), std::string(kListRunsAndStay) + "GET /healthz HTTP/1.1\r\n\r\n" + kListRuns);
  std::size_t count = 0;
  for (auto at = replies.find("HTTP/1.1 200"); at != std::string::npos; at = replies.find("HTTP/1.1 200", at + 1)) {
    ++count;
  }
  EXPECT_EQ(count, 3U);
}

TEST(AdminPeers, APeerThatWaitsForLeaveToSendItsBodyGetsIt) {
  RunningServer server;
  const RawPeer peer = RawPeer::unix_socket(server.socket());
  peer.send(
      "POST /v1/runs?path=%2Fa HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\n"
      "Content-Length: 5\r\n\r\n");
  EXPECT_THAT(peer.read_some(), HasSubstr("100 Continue"));
  peer.send("[run]");
  EXPECT_EQ(status_of(peer.read_to_end()), 200);
}

TEST(AdminPeers, ACrowdAtOneListenerLeavesTheOtherOpen) {
  AdminLimits limits;
  limits.connections_max = 2;
  RunningServer server(limits);
  std::optional<RawPeer> first = RawPeer::tcp(server.http_port());
  const RawPeer second = RawPeer::tcp(server.http_port());
  EXPECT_TRUE(RawPeer::tcp(server.http_port()).closes_within(20s));
  EXPECT_EQ(status_of(ask_unix(server.socket(), kListRuns)), 200);
  EXPECT_FALSE(second.closes_within(0ms));
  first.reset();
  // The server sees the end of the first a moment later: the place is free soon.
  const auto began = std::chrono::steady_clock::now();
  while (status_of(ask_tcp(server.http_port(), kMetrics)) != 200) {
    ASSERT_LT(std::chrono::steady_clock::now() - began, 20s);
  }
}

TEST(AdminPeers, OneThatNeverReadsIsDropped) {
  RunningServer server(impatient());
  const RawPeer peer = RawPeer::unix_socket(server.socket());
  // Far more replies than a socket holds, none of which is read.
  bool open = true;
  const auto began = std::chrono::steady_clock::now();
  while (open && std::chrono::steady_clock::now() - began < 60s) {
    open = peer.send("GET /v1/runs/demo/model HTTP/1.1\r\n\r\n");
  }
  EXPECT_FALSE(open);
}

TEST(AdminPeers, ABackendThatDoesNotAnswerCostsAReplyNotAConnection) {
  RunningServer server(impatient());
  server.backend().hold(true);
  const std::string reply = ask_unix(server.socket(), kListRuns);
  EXPECT_EQ(status_of(reply), 503);
  EXPECT_THAT(reply, HasSubstr("\"code\":\"retry\""));
  server.on_loop([&] { server.backend().release(); });  // too late, and harmless
  server.backend().hold(false);
  EXPECT_EQ(status_of(ask_unix(server.socket(), kListRuns)), 200);
}

TEST(AdminPeers, AnswersMayComeLater) {
  RunningServer server;
  server.backend().hold(true);
  const RawPeer peer = RawPeer::unix_socket(server.socket());
  peer.send(kListRuns);
  for (std::size_t held = 0; held == 0;) {
    server.on_loop([&] {
      held = server.backend().held_count();
      server.backend().release();
    });
  }
  EXPECT_EQ(status_of(peer.read_to_end()), 200);
}

TEST(AdminPeers, StopLeavesNothingOnTheLoop) {
  RunningServer server;
  server.backend().hold(true);
  const RawPeer silent = RawPeer::tcp(server.http_port());
  const RawPeer waiting = RawPeer::unix_socket(server.socket());
  waiting.send(kListRuns);
  for (std::size_t held = 0; held == 0;) server.on_loop([&] { held = server.backend().held_count(); });
  server.stop();  // joins the loop's thread, which ends when nothing is left to do
  EXPECT_TRUE(silent.closes_within(20s));
  waiting.read_to_end();
  EXPECT_FALSE(std::filesystem::exists(server.socket()));
  server.backend().release();  // after the end: harmless
}

TEST(AdminPeers, TheClientSaysWhatWasTriedWhenNobodyIsThere) {
  const auto folder = make_temporary_folder();
  const auto client = AdminClient::connect(folder / "gleaner.sock");
  ASSERT_FALSE(client);
  EXPECT_THAT(client.error().message(), HasSubstr((folder / "gleaner.sock").string()));
  EXPECT_THAT(client.error().message(), HasSubstr("gleaner-coordinator serve --config FILE"));
  std::filesystem::remove_all(folder);
}

TEST(AdminPeers, TheClientDoesNotWaitForEver) {
  RunningServer server;
  server.backend().hold(true);
  auto client = AdminClient::connect(server.socket(), {.answer_timeout = 100ms});
  ASSERT_TRUE(client);
  const auto reply = client->get("/v1/runs");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code(), ErrorCode::retry);
  server.stop();
}

TEST(AdminStart, ErrorsLeaveNothingOpen) {
  const auto folder = make_temporary_folder();
  FakeBackend backend;
  boost::asio::io_context loop;
  RunningServer running;
  AdminServer taken(loop.get_executor(), backend);
  const std::string socket = folder / "a.sock";
  const Status port_in_use = taken.start({.socket = socket, .http = {"127.0.0.1", running.http_port()}});
  ASSERT_FALSE(port_in_use);
  EXPECT_EQ(port_in_use.error().code(), ErrorCode::conflict);
  EXPECT_FALSE(std::filesystem::exists(socket));
  AdminServer second(loop.get_executor(), backend);
  const Status socket_in_use = second.start({.socket = running.socket(), .http = {"127.0.0.1", 0}});
  ASSERT_FALSE(socket_in_use);
  EXPECT_EQ(socket_in_use.error().code(), ErrorCode::conflict);
  AdminServer elsewhere(loop.get_executor(), backend);
  EXPECT_FALSE(elsewhere.start({.socket = "", .http = {"192.0.2.1", 0}}));
  loop.run();  // returns at once: nothing listens
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace gleaner
