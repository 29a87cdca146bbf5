// Frames over real sockets: good and bad manners of the far side, and what is dropped when.

#include "protocol/link/link.hpp"

#include <gmock/gmock.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "protocol/link/task_group.hpp"
#include "tests/protocol/link/raw_peer.hpp"
#include "tests/protocol/link/world.hpp"

namespace gleaner::testing {
namespace {

using ::testing::HasSubstr;
using LinkPtr = std::shared_ptr<Link>;
using std::chrono::milliseconds;

// Named: no temporary of an aggregate inside a co_await expression. `test` outlives every coroutine here.
asio::awaitable<Pair> open_pair(LinkTest& test, LinkLimits server_limits = test_limits(),
                                LinkLimits client_limits = test_limits()) {
  TlsContext server = test.pki_.server(), client = test.pki_.client();
  Pair pair = co_await test.open(std::move(server), std::move(client), server_limits, client_limits);
  EXPECT_TRUE(pair.server.has_value()) << error_of(pair.server);
  EXPECT_TRUE(pair.client.has_value()) << error_of(pair.client);
  co_return pair;
}

asio::awaitable<void> good_path(LinkTest& test) {
  Pair pair = co_await open_pair(test);
  const LinkPtr server = *pair.server, client = *pair.client;
  EXPECT_EQ(server->peer().kind, PeerKind::device);
  EXPECT_EQ(server->peer().name, "d1");
  EXPECT_EQ(server->peer().serial, pki::inspect(test.pki_.path("d1.crt"))->serial);
  EXPECT_EQ(client->peer().kind, PeerKind::coordinator);
  EXPECT_EQ(client->peer().name, "localhost");
  EXPECT_FALSE(client->resumed());

  EXPECT_TRUE(client->send(encode_frame(Hello{.software = "test"})).has_value());
  const auto hello = co_await server->read(Sender::device);
  EXPECT_TRUE(hello.has_value()) << error_of(hello);
  const auto message = decode_body(hello->header, hello->body.view());
  EXPECT_EQ(std::get<Hello>(*message).software, "test");
  EXPECT_TRUE(server->send(encode_frame(Welcome{})).has_value());
  const auto welcome = co_await client->read(Sender::coordinator);
  EXPECT_TRUE(welcome.has_value()) << error_of(welcome);

  EXPECT_EQ(client->counters().frames_out, 1U);
  EXPECT_EQ(client->counters().frames_in, 1U);
  EXPECT_EQ(server->counters().frames_in, 1U);
  EXPECT_EQ(client->counters().bytes_out, server->counters().bytes_in);
  EXPECT_EQ(client->counters().bytes_in, server->counters().bytes_out);
  EXPECT_GT(client->counters().bytes_out, 500U);  // the handshake with its certificate counts
  client->close("done");
}
TEST_F(LinkTest, GoodPath) { run(good_path(*this)); }

asio::awaitable<void> resumption(LinkTest& test) {
  const TlsContext server = test.pki_.server();
  const TlsContext client = test.pki_.client();
  std::uint64_t full_bytes = 0;
  for (int round = 0; round < 4; ++round) {
    Pair pair = co_await test.open(server, client);
    EXPECT_EQ((*pair.client)->resumed(), round > 0) << round;
    EXPECT_EQ((*pair.server)->resumed(), round > 0) << round;
    EXPECT_EQ((*pair.server)->peer().name, "d1");
    EXPECT_GT((*pair.server)->peer().not_after_unix_s, 0);
    EXPECT_TRUE((*pair.server)->send(encode_frame(Welcome{})).has_value());
    EXPECT_TRUE((co_await (*pair.client)->read(Sender::coordinator)).has_value());
    if (round == 0) full_bytes = (*pair.client)->counters().bytes_in;
    if (round > 0) EXPECT_LT((*pair.client)->counters().bytes_in, full_bytes);
    // A connection that just breaks does not cost the next one its session.
    if (round % 2 == 0) (*pair.client)->close("next");
  }
  // A coordinator that reloaded its certificates has other ticket keys.
  Pair pair = co_await test.open(test.pki_.server(), client);
  EXPECT_FALSE((*pair.client)->resumed());
}
TEST_F(LinkTest, Resumption) { run(resumption(*this)); }

asio::awaitable<void> receive_chunks(LinkPtr link, int count, std::uint64_t& bytes) {
  for (int i = 0; i < count; ++i) {
    const auto frame = co_await link->read(Sender::coordinator);
    EXPECT_TRUE(frame.has_value()) << error_of(frame);
    if (!frame) co_return;
    const auto message = decode_body(frame->header, frame->body.view());
    EXPECT_TRUE(message.has_value());
    const auto& chunk = std::get<SyncChunk>(*message);
    EXPECT_EQ(chunk.offset, bytes);
    EXPECT_EQ(chunk.bytes.back(), static_cast<std::byte>(i));
    bytes += chunk.bytes.size();
  }
}

asio::awaitable<void> send_chunks(LinkPtr link, int count, std::size_t queue_bytes_max) {
  std::uint64_t offset = 0;
  for (int i = 0; i < count; ++i) {
    const Bytes bytes(kChunkBytesMax - static_cast<std::size_t>(i) * 4099, static_cast<std::byte>(i));
    const SyncChunk chunk{.plan = {1}, .offset = offset, .bytes = bytes};
    Bytes frame = encode_frame(chunk);
    const Status status = co_await link->send_and_wait(std::move(frame));
    EXPECT_TRUE(status.has_value()) << error_of(status);
    EXPECT_LE(link->queued_bytes(), queue_bytes_max);
    offset += bytes.size();
  }
}

asio::awaitable<void> large_frames(LinkTest& test) {
  using asio::experimental::awaitable_operators::operator&&;
  constexpr int kChunks = 40;
  Pair pair = co_await open_pair(test);
  std::uint64_t bytes = 0;
  auto sending = send_chunks(*pair.server, kChunks, test_limits().queue_bytes_max);
  auto receiving = receive_chunks(*pair.client, kChunks, bytes);
  co_await (std::move(sending) && std::move(receiving));
  EXPECT_EQ(bytes, std::uint64_t{kChunks} * kChunkBytesMax - 4099ULL * kChunks * (kChunks - 1) / 2);
  (*pair.client)->close("done");
}
TEST_F(LinkTest, LargeFramesWithBackPressure) { run(large_frames(*this)); }

// 22 bytes of TLS per record: a hundred heartbeats queued together share one.
asio::awaitable<void> coalescing(LinkTest& test) {
  constexpr int kFrames = 100;
  Pair pair = co_await open_pair(test);
  const std::uint64_t before = (*pair.client)->counters().bytes_out;
  for (int i = 0; i < kFrames; ++i) EXPECT_TRUE((*pair.client)->send(encode_frame(Heartbeat{})).has_value());
  for (int i = 0; i < kFrames; ++i) EXPECT_TRUE((co_await (*pair.server)->read(Sender::device)).has_value());
  const std::uint64_t cost = (*pair.client)->counters().bytes_out - before;
  EXPECT_EQ(cost, kFrames * FrameHeader::kBytes + 22U);
  EXPECT_EQ((*pair.client)->counters().frames_out, std::uint64_t{kFrames});
  (*pair.client)->close("done");
}
TEST_F(LinkTest, SmallFramesShareARecord) { run(coalescing(*this)); }

asio::awaitable<void> slow_reader(LinkTest& test) {
  LinkLimits limits = test_limits();
  limits.queue_bytes_max = 1U << 20;
  limits.write_timeout = milliseconds(50);
  Pair pair = co_await open_pair(test, limits);
  const LinkPtr server = *pair.server;
  const Bytes bytes(100'000);
  Status status;
  int frames = 0;
  while (status) {
    status = server->send(encode_frame(SyncChunk{.plan = {1}, .bytes = bytes}));
    EXPECT_LE(server->queued_bytes(), limits.queue_bytes_max);
    ++frames;
    EXPECT_LT(frames, 1000);
  }
  EXPECT_EQ(status.error().code(), ErrorCode::retry);
  EXPECT_THAT(status.error().message(), HasSubstr("reads too slowly"));
  EXPECT_TRUE(server->is_open());  // the caller decides
  // Who waits for room of a peer that never reads is woken when the peer is dropped.
  for (int i = 0; i < 1000 && status.has_value() == false; ++i) {
    Bytes frame = encode_frame(SyncChunk{.plan = {1}, .bytes = bytes});
    const Status waited = co_await server->send_and_wait(std::move(frame));
    if (!waited) {
      status = waited;
      break;
    }
  }
  EXPECT_THAT(error_of(status), HasSubstr("reads too slowly: dropped"));
  EXPECT_FALSE(server->is_open());
  EXPECT_EQ(server->queued_bytes() <= limits.queue_bytes_max, true);
  (*pair.client)->close("done");
}
TEST_F(LinkTest, PeerThatNeverReadsIsDropped) { run(slow_reader(*this)); }

asio::awaitable<void> read_once(LinkTest& test, LinkLimits limits, Error& error) {
  const auto link = co_await test.accept_one(test.pki_.server(), limits);
  EXPECT_TRUE(link.has_value()) << error_of(link);
  const auto frame = co_await (*link)->read(Sender::device);
  if (!frame) error = frame.error();
  const auto again = co_await (*link)->read(Sender::device);
  EXPECT_EQ(error_of(again), error_of(frame));
  (*link)->close("test ends");
}

void say(SSL* ssl, const Bytes& bytes) { SSL_write(ssl, bytes.data(), static_cast<int>(bytes.size())); }

TEST_F(LinkTest, FrameThatNeverEnds) {
  Bytes start = encode_frame(Skip{.plan = {1}});
  start.resize(10);
  const RawPeer peer(port(), {.files = pki_.files("d1"), .talk = [&start](SSL* ssl) { say(ssl, start); }});
  LinkLimits limits = test_limits();
  limits.frame_timeout = milliseconds(30);
  Error error(ErrorCode::fatal, "none");
  run(read_once(*this, limits, error));
  EXPECT_EQ(error.code(), ErrorCode::peer_fault);
  EXPECT_THAT(error.message(), HasSubstr("did not arrive in time"));
}

// One byte now and then keeps nothing alive: the limit is for the whole frame.
asio::awaitable<void> trickle(LinkTest& test) {
  LinkLimits limits = test_limits();
  limits.frame_timeout = milliseconds(100);
  limits.frame_bytes_per_s_min = 1U << 20;
  Pair pair = co_await open_pair(test, limits);
  asio::steady_timer pause(test.io_);
  const Bytes frame = encode_frame(Decline{.run = {1}, .reason = std::string(500, 'x')});
  const auto trickled = [&pair](std::byte byte) { return (*pair.client)->send(Bytes{byte}); };
  using asio::experimental::awaitable_operators::operator||;
  std::size_t sent = 0;
  auto reading = (*pair.server)->read(Sender::device);
  Result<InFrame> outcome = fail(ErrorCode::fatal, "none");
  bool ended = false;
  asio::co_spawn(test.io_, std::move(reading), [&](const std::exception_ptr&, Result<InFrame> result) {
    outcome = std::move(result);
    ended = true;
  });
  while (!ended && sent < frame.size()) {
    const Status status = trickled(frame[sent++]);
    if (!status) break;
    pause.expires_after(milliseconds(5));
    co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
  }
  EXPECT_TRUE(ended);
  EXPECT_LT(sent, frame.size());
  EXPECT_THAT(error_of(outcome), HasSubstr("did not arrive in time"));
  (*pair.client)->close("done");
}
TEST_F(LinkTest, TricklingSenderIsDropped) { run(trickle(*this)); }

asio::awaitable<void> half_open(LinkTest& test) {
  LinkLimits limits = test_limits();
  limits.idle_timeout = milliseconds(30);
  Pair pair = co_await open_pair(test, limits);
  const auto frame = co_await (*pair.server)->read(Sender::device);
  EXPECT_FALSE(frame.has_value());
  EXPECT_EQ(frame.error().code(), ErrorCode::retry);
  EXPECT_THAT(error_of(frame), HasSubstr("nothing was heard in time"));
  (*pair.client)->close("done");
}
TEST_F(LinkTest, SilentPeerIsDropped) { run(half_open(*this)); }

TEST_F(LinkTest, BadHeadersAreRefused) {
  struct Case {
    Bytes bytes;
    std::string expected;
  };
  const auto header = [](std::uint32_t size, std::uint8_t type) {
    Bytes bytes;
    ByteWriter writer(bytes);
    writer.put(size);
    writer.put(type);
    return bytes;
  };
  const Case cases[] = {{header(0xffffffff, 9), "Update frame of 4294967295 bytes"},
                        {header(10, 200), "frame type 200 is unknown"},
                        {header(100, 7), "a device may not send a Plan"},
                        {header(1, 13), "Heartbeat frame of 1 bytes"}};
  for (const Case& bad : cases) {
    const RawPeer peer(port(), {.files = pki_.files("d1"), .talk = [&bad](SSL* ssl) { say(ssl, bad.bytes); }});
    Error error(ErrorCode::fatal, "none");
    run(read_once(*this, test_limits(), error));
    EXPECT_EQ(error.code(), ErrorCode::peer_fault);
    EXPECT_THAT(error.message(), HasSubstr(bad.expected));
  }
}

// Bytes that are no TLS record in the middle of a good connection.
TEST_F(LinkTest, GarbageAfterTheHandshake) {
  const auto talk = [](SSL* ssl) {
    const std::string garbage(1000, '\x17');
    EXPECT_EQ(::write(SSL_get_fd(ssl), garbage.data(), garbage.size()), 1000);
  };
  const RawPeer peer(port(), {.files = pki_.files("d1"), .talk = talk});
  Error error(ErrorCode::fatal, "none");
  run(read_once(*this, test_limits(), error));
  EXPECT_EQ(error.code(), ErrorCode::peer_fault);
}

asio::awaitable<void> read_into(LinkPtr link, Sender sender, std::string& outcome) {
  const auto frame = co_await link->read(sender);
  outcome = frame ? "a " + std::string(frame_name(frame->header.type)) : frame.error().message();
}

asio::awaitable<void> close_now(LinkPtr link) {
  link->close("the test says so");
  link->close("twice");
  co_return;
}

asio::awaitable<void> close_during_read(LinkTest& test) {
  using asio::experimental::awaitable_operators::operator&&;
  Pair pair = co_await open_pair(test);
  std::string here, there;
  auto mine = read_into(*pair.client, Sender::coordinator, here);
  auto theirs = read_into(*pair.server, Sender::device, there);
  auto closing = close_now(*pair.client);
  co_await (std::move(mine) && std::move(theirs) && std::move(closing));
  EXPECT_THAT(here, HasSubstr("closed: the test says so"));
  EXPECT_THAT(there, HasSubstr("closed by the far side"));
  EXPECT_FALSE((*pair.client)->send(encode_frame(Heartbeat{})).has_value());
}
TEST_F(LinkTest, CloseWakesBothReaders) { run(close_during_read(*this)); }

// What is said before close() is heard, though the other side is still talking.
asio::awaitable<void> last_words(LinkTest& test) {
  Pair pair = co_await open_pair(test);
  for (int i = 0; i < 50; ++i) {
    const Bytes bytes(60'000);
    EXPECT_TRUE((*pair.client)->send(encode_frame(Update{.plan = {1}, .total_bytes = 60'000, .bytes = bytes})));
  }
  EXPECT_TRUE((*pair.server)->send(encode_frame(Failure{.text = "bye"})).has_value());
  (*pair.server)->close("refused");
  const auto failure = co_await (*pair.client)->read(Sender::coordinator);
  EXPECT_TRUE(failure.has_value()) << error_of(failure);
  const auto end = co_await (*pair.client)->read(Sender::coordinator);
  EXPECT_THAT(error_of(end), HasSubstr("closed by the far side"));
}
TEST_F(LinkTest, LastWordsAreHeard) { run(last_words(*this)); }

asio::awaitable<void> read_for_ever(LinkPtr link, std::string& outcome) {
  const auto frame = co_await link->read(Sender::device);
  outcome = error_of(frame);
}

asio::awaitable<void> cancelled_read(LinkTest& test) {
  Pair pair = co_await open_pair(test);
  TaskGroup group(test.io_.get_executor(), 10);
  std::string outcome;
  EXPECT_TRUE(group.spawn("reader", read_for_ever(*pair.server, outcome)).has_value());
  asio::steady_timer turn(test.io_, milliseconds(1));
  co_await turn.async_wait(asio::as_tuple(asio::use_awaitable));
  group.cancel();
  co_await group.wait();
  EXPECT_THAT(outcome, HasSubstr("cancelled"));
  EXPECT_FALSE((*pair.server)->is_open());
  (*pair.client)->close("done");
}
TEST_F(LinkTest, CancelledReadEndsTheLink) { run(cancelled_read(*this)); }

asio::awaitable<void> serve_echo(LinkPtr link) {
  for (;;) {
    const auto frame = co_await link->read(Sender::device);
    if (!frame) co_return;
    const auto message = decode_body(frame->header, frame->body.view());
    EXPECT_TRUE(message.has_value());
    const auto& update = std::get<Update>(*message);
    EXPECT_TRUE(link->send(encode_frame(Received{.plan = update.plan, .offset = update.total_bytes})).has_value());
  }
}

asio::awaitable<void> serve_one(asio::ip::tcp::socket socket, TlsContext context) {
  auto link = co_await Link::accept(std::move(socket), std::move(context), test_limits());
  EXPECT_TRUE(link.has_value()) << error_of(link);
  if (link) co_await serve_echo(*link);
}

asio::awaitable<void> serve_all(LinkTest& test, TaskGroup& group, TlsContext context, int count) {
  for (int i = 0; i < count; ++i) {
    auto socket = co_await test.acceptor_->accept();
    EXPECT_TRUE(socket.has_value()) << error_of(socket);
    if (!socket) co_return;
    auto task = serve_one(std::move(*socket), context);
    EXPECT_TRUE(group.spawn("echo", std::move(task)).has_value());
  }
}

asio::awaitable<void> one_device(LinkTest& test, TlsContext context, std::uint64_t id, int& good) {
  auto link = co_await Link::connect(test.io_.get_executor(), "127.0.0.1", test.port(), context, test_limits());
  EXPECT_TRUE(link.has_value()) << error_of(link);
  if (!link) co_return;
  for (std::uint32_t round = 1; round <= 5; ++round) {
    const Bytes bytes(round * 7000);
    const Update update{.plan = {id}, .total_bytes = round * 7000, .bytes = bytes};
    EXPECT_TRUE((*link)->send(encode_frame(update)).has_value());
    const auto frame = co_await (*link)->read(Sender::coordinator);
    EXPECT_TRUE(frame.has_value()) << error_of(frame);
    if (!frame) co_return;
    const auto message = decode_body(frame->header, frame->body.view());
    const auto& received = std::get<Received>(*message);
    if (received.plan.value == id && received.offset == round * 7000) ++good;
  }
  (*link)->close("done");
}

asio::awaitable<void> many_links(LinkTest& test) {
  constexpr int kLinks = 60;
  TaskGroup group(test.io_.get_executor(), 3 * kLinks);
  int good = 0;
  EXPECT_TRUE(group.spawn("acceptor", serve_all(test, group, test.pki_.server(), kLinks)).has_value());
  const TlsContext context = test.pki_.client();
  for (int i = 0; i < kLinks; ++i) {
    EXPECT_TRUE(group.spawn("device", one_device(test, context, static_cast<std::uint64_t>(i + 1), good)).has_value());
  }
  co_await group.wait();
  EXPECT_EQ(good, 5 * kLinks);
}
TEST_F(LinkTest, ManyParallelLinks) { run(many_links(*this)); }

// What cannot be understood can still be answered before the link is closed.
asio::awaitable<void> answer_a_bad_frame(LinkTest& test) {
  Pair pair = co_await open_pair(test);
  EXPECT_TRUE((*pair.client)->send(encode_frame(RunEnded{})).has_value());  // not a device's to say
  const auto bad = co_await (*pair.server)->read(Sender::device);
  EXPECT_THAT(error_of(bad), HasSubstr("a device may not send a RunEnded"));
  EXPECT_TRUE((*pair.server)->send(encode_frame(Failure{.text = "no"})).has_value());
  (*pair.server)->close("protocol");
  const auto failure = co_await (*pair.client)->read(Sender::coordinator);
  EXPECT_TRUE(failure.has_value()) << error_of(failure);
}
TEST_F(LinkTest, BadFrameCanBeAnswered) { run(answer_a_bad_frame(*this)); }

asio::awaitable<void> count_turns(asio::io_context& io, const bool& stop, int& turns) {
  while (!stop) {
    co_await asio::post(io, asio::use_awaitable);
    ++turns;
  }
}

// A peer that always has the next frame ready does not starve the others on the thread.
asio::awaitable<void> read_in_turns(LinkTest& test) {
  constexpr int kFrames = 5000;
  Pair pair = co_await open_pair(test);
  Bytes frames;
  for (int i = 0; i < kFrames; ++i) {
    const Bytes frame = encode_frame(Heartbeat{});
    frames.insert(frames.end(), frame.begin(), frame.end());
  }
  EXPECT_TRUE((*pair.client)->send(std::move(frames)).has_value());
  while ((*pair.client)->queued_bytes() > 0) co_await asio::post(test.io_, asio::use_awaitable);
  bool stop = false;
  int turns = 0;
  TaskGroup group(test.io_.get_executor(), 1);
  EXPECT_TRUE(group.spawn("turns", count_turns(test.io_, stop, turns)).has_value());
  for (int i = 0; i < kFrames; ++i) EXPECT_TRUE((co_await (*pair.server)->read(Sender::device)).has_value());
  stop = true;
  EXPECT_GE(turns, kFrames / 100);
  co_await group.wait();
  (*pair.client)->close("done");
}
TEST_F(LinkTest, AFloodIsReadInTurns) { run(read_in_turns(*this)); }

// The connection is cut without a goodbye.
TEST_F(LinkTest, CutConnection) {
  const auto talk = [](SSL* ssl) { ::shutdown(SSL_get_fd(ssl), SHUT_RDWR); };
  const RawPeer peer(port(), {.files = pki_.files("d1"), .talk = talk});
  Error error(ErrorCode::fatal, "none");
  run(read_once(*this, test_limits(), error));
  EXPECT_EQ(error.code(), ErrorCode::retry);
  EXPECT_THAT(error.message(), HasSubstr("without a word"));
}

}  // namespace
}  // namespace gleaner::testing
