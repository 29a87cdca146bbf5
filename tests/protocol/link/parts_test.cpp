// The smaller parts beside the link: acceptor, task group, backoff, change log, addresses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <thread>

#include "protocol/link/acceptor.hpp"
#include "protocol/link/backoff.hpp"
#include "protocol/link/change_log.hpp"
#include "protocol/link/host_port.hpp"
#include "protocol/link/task_group.hpp"

namespace gleaner {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

TEST(HostPort, ReadsWhatPeopleWrite) {
  EXPECT_EQ(parse_host_port("a.example.org:4433"), (HostPort{"a.example.org", 4433}));
  EXPECT_EQ(parse_host_port("192.0.2.1:1"), (HostPort{"192.0.2.1", 1}));
  EXPECT_EQ(parse_host_port("[::]:65535"), (HostPort{"::", 65535}));
  EXPECT_EQ(parse_host_port("[2001:db8::1]:0"), (HostPort{"2001:db8::1", 0}));
  for (const std::string bad :
       {"", "a", "a:", ":1", "a:65536", "a:-1", "a:1x", "::1", "::1:443", "[]:1", "[::1]", "a]:1"}) {
    const auto parsed = parse_host_port(bad);
    ASSERT_FALSE(parsed.has_value()) << bad;
    EXPECT_EQ(parsed.error().code(), ErrorCode::bad_input);
  }
  EXPECT_EQ(to_text("::1", 5), "[::1]:5");
  EXPECT_EQ(to_text("host", 5), "host:5");
}

RC_GTEST_PROP(Backoff, StaysWithinItsBoundsAndGrows, (std::uint64_t seed)) {
  const BackoffLimits limits{.least = milliseconds(100), .first = milliseconds(400), .most = milliseconds(60'000)};
  Backoff backoff(limits, Random(seed, Purpose::jitter));
  Duration ceiling = limits.first;
  for (int i = 0; i < 100; ++i) {
    const Duration wait = backoff.next();
    RC_ASSERT(wait >= limits.least);
    RC_ASSERT(wait <= ceiling);
    ceiling = std::min(ceiling * 2, limits.most);
  }
  backoff.reset();
  RC_ASSERT(backoff.next() <= limits.first);
}

TEST(Backoff, SpreadsAFleet) {
  const BackoffLimits limits{.least = milliseconds(0), .first = milliseconds(1000), .most = milliseconds(1000)};
  double sum = 0;
  for (std::uint32_t device = 0; device < 1000; ++device) {
    sum += to_seconds(Backoff(limits, Random(1, Purpose::jitter, 0, device)).next());
  }
  EXPECT_NEAR(sum / 1000, 0.5, 0.05);
}

TEST(Backoff, KeepsToAHint) {
  Backoff backoff(BackoffLimits{}, Random(1, Purpose::jitter));
  for (int i = 0; i < 100; ++i) {
    const Duration wait = backoff.next_after(milliseconds(10'000));
    EXPECT_GE(wait, milliseconds(10'000));
    EXPECT_LE(wait, milliseconds(15'000));
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_GE(backoff.next_after(std::chrono::seconds(290)), std::chrono::seconds(290));
    const Duration longest = backoff.next_after(std::chrono::hours(10'000));
    EXPECT_GE(longest, std::chrono::seconds(200));
    EXPECT_LE(longest, std::chrono::minutes(5));
  }
}

TEST(ChangeLog, TellsEachTextOncePerKey) {
  ChangeLog log;
  EXPECT_EQ(log.note("a", "down"), 0U);
  EXPECT_EQ(log.note("b", "down"), 0U);
  EXPECT_EQ(log.note("a", "down"), std::nullopt);
  EXPECT_EQ(log.note("a", "down"), std::nullopt);
  EXPECT_EQ(log.note("a", "refused"), 2U);
  EXPECT_EQ(log.note("a", "down"), 0U);
  log.forget("a");
  EXPECT_EQ(log.note("a", "down"), 0U);
  log.forget("nobody");
}

TEST(ChangeLog, IsBounded) {
  ChangeLog log(3);
  for (int i = 0; i < 100; ++i) log.note(std::to_string(i), "down");
  EXPECT_EQ(log.size(), 3U);
  EXPECT_EQ(log.note("99", "down"), std::nullopt);
  EXPECT_EQ(log.note("97", "down"), std::nullopt);
  EXPECT_EQ(log.note("1", "down"), 0U);  // forgotten, and now in the place of 98
  EXPECT_EQ(log.note("97", "down"), std::nullopt);
  EXPECT_EQ(log.note("98", "down"), 0U);
}

asio::awaitable<void> wait_for_ever(asio::io_context& io) {
  asio::steady_timer timer(io, asio::steady_timer::time_point::max());
  co_await timer.async_wait(asio::use_awaitable);
}
asio::awaitable<void> throw_at_once() {
  throw std::runtime_error("deliberate");
  co_return;
}
asio::awaitable<void> cancel_and_wait(TaskGroup& group) {
  group.cancel();
  co_await group.wait();
}

TEST(TaskGroup, IsBoundedAndCancellable) {
  asio::io_context io(1);
  TaskGroup group(io.get_executor(), 3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(group.spawn("waits", wait_for_ever(io)).has_value());
  const Status full = group.spawn("fourth", wait_for_ever(io));
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().code(), ErrorCode::retry);
  EXPECT_THAT(full.error().message(), HasSubstr("fourth"));
  EXPECT_EQ(group.size(), 3U);
  bool ended = false;
  asio::co_spawn(io, cancel_and_wait(group), [&ended](const std::exception_ptr& error) { ended = !error; });
  io.run_for(std::chrono::seconds(20));
  EXPECT_TRUE(ended);
  EXPECT_EQ(group.size(), 0U);
  EXPECT_EQ(group.spawn("too late", wait_for_ever(io)).error().code(), ErrorCode::conflict);
}

TEST(TaskGroup, AnEscapedExceptionIsLoggedWithTheTasksName) {
  asio::io_context io(1);
  TaskGroup group(io.get_executor(), 3);
  EXPECT_TRUE(group.spawn("thrower", throw_at_once()).has_value());
  ::testing::internal::CaptureStderr();
  io.run();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("task thrower ended with an exception: deliberate"));
  EXPECT_EQ(group.size(), 0U);
}

TEST(TaskGroup, AnotherThreadCanWait) {
  asio::io_context io(1);
  TaskGroup group(io.get_executor(), 3);
  EXPECT_TRUE(group.spawn("waits", wait_for_ever(io)).has_value());
  std::thread thread([&io] { io.run(); });
  asio::post(io, [&group] { group.cancel(); });
  group.wait_blocking();
  EXPECT_EQ(group.size(), 0U);
  thread.join();
}

asio::awaitable<void> accept_into(Acceptor& acceptor, std::string& outcome) {
  auto socket = co_await acceptor.accept();
  outcome = socket ? "accepted" : socket.error().message();
}

bool can_connect(asio::io_context& io, const char* address, std::uint16_t port) {
  tcp::socket socket(io);
  boost::system::error_code error;
  socket.connect({asio::ip::make_address(address), port}, error);
  return !error;
}

TEST(Acceptor, TakesBothFamilies) {
  asio::io_context io(1);
  auto acceptor = Acceptor::listen(io.get_executor(), "::", 0);
  if (!acceptor) {
    // A machine without IPv6 says so, and the other family is there.
    EXPECT_THAT(acceptor.error().message(), HasSubstr("no IPv6"));
    acceptor = Acceptor::listen(io.get_executor(), "0.0.0.0", 0);
  } else {
    EXPECT_TRUE(can_connect(io, "::1", (*acceptor)->endpoint().port()));
  }
  ASSERT_TRUE(acceptor.has_value()) << acceptor.error().message();
  EXPECT_TRUE(can_connect(io, "127.0.0.1", (*acceptor)->endpoint().port()));
}

TEST(Acceptor, ExplainsWhyItCannotListen) {
  asio::io_context io(1);
  const auto first = Acceptor::listen(io.get_executor(), "127.0.0.1", 0);
  ASSERT_TRUE(first.has_value());
  const auto second = Acceptor::listen(io.get_executor(), "127.0.0.1", (*first)->endpoint().port());
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code(), ErrorCode::conflict);
  EXPECT_THAT(second.error().message(), HasSubstr("another program listens there"));
  const auto foreign = Acceptor::listen(io.get_executor(), "192.0.2.1", 0);
  ASSERT_FALSE(foreign.has_value());
  EXPECT_EQ(foreign.error().code(), ErrorCode::bad_input);
  EXPECT_THAT(foreign.error().message(), HasSubstr("192.0.2.1:0"));
}

TEST(Acceptor, CloseEndsAWaitingAccept) {
  asio::io_context io(1);
  const auto acceptor = Acceptor::listen(io.get_executor(), "127.0.0.1", 0).value();
  std::string outcome;
  asio::co_spawn(io, accept_into(*acceptor, outcome), [](const std::exception_ptr&) {});
  asio::post(io, [&acceptor] { acceptor->close(); });
  io.run_for(std::chrono::seconds(20));
  EXPECT_EQ(outcome, "no longer listening");
}

// Out of descriptors: it waits, does not spin, and goes on when there are some again.
TEST(Acceptor, SurvivesAShortageOfDescriptors) {
  asio::io_context io(1);
  const auto acceptor = Acceptor::listen(io.get_executor(), "127.0.0.1", 0).value();
  tcp::socket client(io);
  client.connect(acceptor->endpoint());  // into the backlog
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);
  ASSERT_GE(next, 0);
  ::close(next);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(next);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  std::string outcome;
  asio::co_spawn(io, accept_into(*acceptor, outcome), [](const std::exception_ptr&) {});
  asio::steady_timer relief(io, milliseconds(150));
  relief.async_wait([&before](const boost::system::error_code&) { ::setrlimit(RLIMIT_NOFILE, &before); });
  io.run_for(std::chrono::seconds(20));
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(outcome, "accepted");
  EXPECT_GE(acceptor->shortages(), 1U);
  EXPECT_LE(acceptor->shortages(), 3U);
}

TEST(Acceptor, RaisesTheDescriptorLimit) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(raise_descriptor_limit(), before.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace gleaner
