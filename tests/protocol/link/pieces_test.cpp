// Frames read in pieces, what may be said when reading has failed, and how long a write may wait.

#include <gmock/gmock.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "tests/protocol/link/world.hpp"

namespace gleaner::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

asio::awaitable<void> pause(asio::io_context& io, milliseconds length) {
  asio::steady_timer timer(io, length);
  (void)co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
}

// The pieces are the frame, and between them the reader may take longer than a frame and than silence.
asio::awaitable<void> pieces(LinkTest& test) {
  LinkLimits limits = test_limits();
  limits.frame_timeout = milliseconds(500);
  limits.idle_timeout = milliseconds(500);
  TlsContext server = test.pki_.server(), client = test.pki_.client();
  Pair pair = co_await test.open(server, client, limits);
  Bytes payload(300'000);
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i % 251);
  const Update sent{.plan = {7}, .samples = 3, .total_bytes = 300'000, .bytes = payload};
  EXPECT_TRUE((*pair.client)->send(encode_frame(sent)).has_value());
  EXPECT_TRUE((*pair.client)->send(encode_frame(Heartbeat{})).has_value());

  const auto header = co_await (*pair.server)->read_header(Sender::device);
  EXPECT_TRUE(header.has_value()) << error_of(header);
  EXPECT_TRUE(is_update(*header));
  std::array<std::byte, kUpdateHeadBytes> head{};
  EXPECT_TRUE((co_await (*pair.server)->read_part(head)).has_value());
  const auto update = decode_update_head(*header, head);
  EXPECT_TRUE(update.has_value()) << error_of(update);
  EXPECT_EQ(update->plan.value, 7U);
  EXPECT_EQ(update->total_bytes, 300'000U);
  EXPECT_TRUE(update->bytes.empty());
  EXPECT_EQ((*pair.server)->counters().frames_in, 0U);
  co_await pause(test.io_, milliseconds(700));

  Bytes got(header->body_bytes - kUpdateHeadBytes);
  const std::span<std::byte> all(got);
  EXPECT_TRUE((co_await (*pair.server)->read_part(all.first(1))).has_value());
  EXPECT_TRUE((co_await (*pair.server)->read_part(all.subspan(1))).has_value());
  EXPECT_EQ(got, payload);
  EXPECT_EQ((*pair.server)->counters().frames_in, 1U);
  const auto next = co_await (*pair.server)->read(Sender::device);
  EXPECT_TRUE(next.has_value()) << error_of(next);
  (*pair.client)->close("done");
}
TEST_F(LinkTest, AFrameInPieces) { run(pieces(*this)); }

// A part that does not come is no less a time-out than a frame, and the far side can still be told.
asio::awaitable<void> late_part(LinkTest& test) {
  LinkLimits limits = test_limits();
  limits.frame_timeout = milliseconds(30);
  limits.frame_bytes_per_s_min = 1U << 20;
  TlsContext server = test.pki_.server(), client = test.pki_.client();
  Pair pair = co_await test.open(server, client, limits);
  Bytes frame = encode_frame(Update{.plan = {1}, .total_bytes = 1000, .bytes = Bytes(1000)});
  frame.resize(500);
  EXPECT_TRUE((*pair.client)->send(std::move(frame)).has_value());
  const auto header = co_await (*pair.server)->read_header(Sender::device);
  EXPECT_TRUE(header.has_value()) << error_of(header);
  Bytes body(header->body_bytes);
  const Status status = co_await (*pair.server)->read_part(body);
  EXPECT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code(), ErrorCode::peer_fault);
  EXPECT_THAT(status.error().message(), HasSubstr("did not arrive in time"));
  EXPECT_FALSE((co_await (*pair.server)->read(Sender::device)).has_value());
  EXPECT_TRUE((*pair.server)->send(encode_frame(Failure{.text = "too slow"})).has_value());
  (*pair.server)->close("too slow");
  const auto failure = co_await (*pair.client)->read(Sender::coordinator);
  EXPECT_TRUE(failure.has_value()) << error_of(failure);
  (*pair.client)->close("done");
}
TEST_F(LinkTest, ALatePartCanBeAnswered) { run(late_part(*this)); }

// The server reads nothing and says a word every 20 ms, `words` times, then nothing.
asio::awaitable<void> write_to_the_busy(LinkTest& test, bool waits, std::size_t words, std::string& end) {
  LinkLimits limits = test_limits();
  limits.write_timeout = milliseconds(50);
  limits.idle_timeout = milliseconds(1000);
  limits.write_waits_while_heard = waits;
  limits.queue_bytes_max = 64U << 20;
  TlsContext server = test.pki_.server(), client = test.pki_.client();
  Pair pair = co_await test.open(server, client, test_limits(), limits);
  const Bytes bytes(kChunkBytesMax);
  for (int i = 0; i < 24; ++i) {
    EXPECT_TRUE((*pair.client)->send(encode_frame(Update{.plan = {1}, .total_bytes = kChunkBytesMax, .bytes = bytes})));
  }
  std::size_t heard = 0;
  for (; heard < words; ++heard) {
    co_await pause(test.io_, milliseconds(20));
    if (!(*pair.server)->send(encode_frame(Heartbeat{}))) break;
    const auto frame = co_await (*pair.client)->read(Sender::coordinator);
    if (frame) continue;
    end = error_of(frame);
    co_return;
  }
  EXPECT_GT((*pair.client)->queued_bytes(), 0U) << "the write never waited: nothing was tested";
  const auto frame = co_await (*pair.client)->read(Sender::coordinator);
  end = error_of(frame);
}
TEST_F(LinkTest, AWriteWaitsWhileTheFarSideSpeaks) {
  std::string end;
  run(write_to_the_busy(*this, true, 20, end));  // for eight times the write time-out
  EXPECT_THAT(end, ::testing::AnyOf(HasSubstr("nothing was heard in time"), HasSubstr("reads too slowly")));
}
TEST_F(LinkTest, AWriteDoesNotWaitUnlessItMay) {
  std::string end;
  run(write_to_the_busy(*this, false, 1000, end));
  EXPECT_THAT(end, HasSubstr("reads too slowly: dropped"));
}

}  // namespace
}  // namespace gleaner::testing
