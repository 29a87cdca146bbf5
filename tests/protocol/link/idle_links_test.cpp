// What an idle connection costs: a fleet holds thousands for months.

#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdio>
#include <fstream>

#include "protocol/link/task_group.hpp"
#include "tests/protocol/link/world.hpp"

namespace gleaner::testing {
namespace {

constexpr std::size_t kLinksMax = 1000;
constexpr std::size_t kLinksMin = 200;  // fewer say little: what the process itself holds would show
constexpr std::size_t kWarmUp = 50;
constexpr std::size_t kOtherDescriptors = 100;
constexpr double kBytesMax = 24'000;  // an end

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

asio::awaitable<void> wait_for_a_frame(std::shared_ptr<Link> link, Sender sender) {
  while (co_await link->read(sender)) {
  }
}

asio::awaitable<void> open_and_rest(LinkTest& test, TaskGroup& group, std::size_t count, double& bytes_an_end) {
  const TlsContext server = test.pki_.server(), client = test.pki_.client();
  std::vector<std::shared_ptr<Link>> links;
  std::size_t before = 0, heap_before = 0;
  for (std::size_t i = 0; i < count + kWarmUp; ++i) {
    if (i == kWarmUp) {  // the first ones warm the libraries up
      before = resident_bytes();
      heap_before = ::mallinfo2().uordblks;
    }
    Pair pair = co_await test.open(server, client);
    EXPECT_TRUE(pair.server.has_value()) << error_of(pair.server);
    EXPECT_TRUE(pair.client.has_value()) << error_of(pair.client);
    if (!pair.server || !pair.client) co_return;
    // As in service: Hello, Welcome with which the ticket comes, a word of the device, and then both ends wait.
    EXPECT_TRUE((*pair.client)->send(encode_frame(Hello{.software = "test"})).has_value());
    EXPECT_TRUE((co_await (*pair.server)->read(Sender::device)).has_value());
    EXPECT_TRUE((*pair.server)->send(encode_frame(Welcome{})).has_value());
    EXPECT_TRUE((co_await (*pair.client)->read(Sender::coordinator)).has_value());
    EXPECT_TRUE((*pair.client)->send(encode_frame(Heartbeat{})).has_value());
    EXPECT_TRUE((co_await (*pair.server)->read(Sender::device)).has_value());
    EXPECT_TRUE(group.spawn("server", wait_for_a_frame(*pair.server, Sender::device)).has_value());
    EXPECT_TRUE(group.spawn("client", wait_for_a_frame(*pair.client, Sender::coordinator)).has_value());
    links.push_back(*pair.server);
    links.push_back(*pair.client);
  }
  ::malloc_trim(0);
  const double ends = 2.0 * static_cast<double>(count);
  bytes_an_end = static_cast<double>(resident_bytes() - before) / ends;
  const double heap_an_end = static_cast<double>(::mallinfo2().uordblks - heap_before) / ends;
  std::printf("%zu idle links: %.1f kB resident an end, %.1f kB of it live heap\n", count, bytes_an_end / 1000,
              heap_an_end / 1000);
  for (const auto& link : links) link->close("done");
  co_await group.wait();
}

TEST_F(LinkTest, AnIdleLinkIsSmall) {
  // Two descriptors a link. Where few are allowed, fewer links are measured, and with too few the test fails.
  const std::size_t descriptors = raise_descriptor_limit();
  const std::size_t room = (descriptors - std::min(descriptors, kOtherDescriptors)) / 2;
  const std::size_t links = std::min(kLinksMax, room - std::min(room, kWarmUp));
  ASSERT_GE(links, kLinksMin) << descriptors << " open files are allowed, too few to measure: raise `ulimit -n`";
  TaskGroup group(io_.get_executor(), 2 * (links + kWarmUp));
  double bytes_an_end = 0;
  run(open_and_rest(*this, group, links, bytes_an_end));
  EXPECT_GT(bytes_an_end, 1000);
  EXPECT_LT(bytes_an_end, kBytesMax);
}

}  // namespace
}  // namespace gleaner::testing
