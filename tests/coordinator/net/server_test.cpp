// The server's side of strangers, liars and the silent: what they are told and what is counted of them.

#include <gmock/gmock.h>
#include <openssl/ssl.h>

#include "coordinator/net/server.hpp"
#include "tests/coordinator/net/world.hpp"
#include "tests/protocol/link/raw_peer.hpp"

namespace gleaner::testing {
namespace {

using ::testing::HasSubstr;

class ServerTest : public LinkTest {
 public:
  ServerTest() {
    const TlsFiles files = pki_.files("coordinator");
    config_.ca = files.ca;
    config_.certificate = files.certificate;
    config_.key = files.key;
    config_.listen = {.host = "127.0.0.1", .port = 0};
  }

  void start() {
    server_ =
        std::make_unique<Server>(io_, config_, system_clock(), Server::Hooks{[] { return nullptr; }, [](auto&&) {}});
    ASSERT_TRUE(server_->reload({}).has_value());
    const auto port = server_->listen();
    ASSERT_TRUE(port.has_value()) << error_of(port);
    port_ = *port;
  }

  CoordinatorConfig config_;
  std::unique_ptr<Server> server_;
  std::uint16_t port_ = 0;
};

// Until as many connections as that have come and gone.
asio::awaitable<void> serve(ServerTest& test, const bool& gone) {
  while (!gone || test.server_->connections() > 0) co_await turn(test.io_);
  test.server_->drain(std::chrono::seconds(1));
  co_await test.server_->tasks().wait();
}

std::string read_to_end(SSL* ssl) {
  std::string all;
  std::array<char, 4096> some{};
  for (int size = 0; (size = SSL_read(ssl, some.data(), static_cast<int>(some.size()))) > 0;) {
    all.append(some.data(), static_cast<std::size_t>(size));
  }
  return all;
}

// The last message among frames of the coordinator.
Message last_of(const std::string& bytes) {
  Message last;
  for (std::size_t at = 0; at + FrameHeader::kBytes <= bytes.size();) {
    const auto view = std::as_bytes(std::span(bytes)).subspan(at);
    const auto header = decode_header(view.first(FrameHeader::kBytes), Sender::coordinator);
    EXPECT_TRUE(header.has_value()) << error_of(header);
    if (!header || view.size() < FrameHeader::kBytes + header->body_bytes) break;
    const auto body = AlignedBuffer::copy_of(view.subspan(FrameHeader::kBytes, header->body_bytes));
    auto message = decode_body(*header, body.view());
    EXPECT_TRUE(message.has_value()) << error_of(message);
    if (message) last = std::move(*message);
    at += FrameHeader::kBytes + header->body_bytes;
  }
  return last;
}

Bytes header_of(std::uint32_t body_bytes, std::uint8_t type) {
  Bytes bytes;
  ByteWriter out(bytes);
  out.put(body_bytes);
  out.put(type);
  return bytes;
}

// Says hello and that, reads what is answered to the end.
std::string answer_to(ServerTest& test, const Bytes& lie) {
  test.start();
  std::string answer;
  bool gone = false;
  const auto talk = [&](SSL* ssl) {
    Bytes bytes = encode_frame(Hello{.software = "test"});
    bytes.insert(bytes.end(), lie.begin(), lie.end());
    EXPECT_EQ(SSL_write(ssl, bytes.data(), static_cast<int>(bytes.size())), static_cast<int>(bytes.size()));
    answer = read_to_end(ssl);
    EXPECT_EQ(SSL_get_shutdown(ssl), SSL_RECEIVED_SHUTDOWN) << "it was cut, not closed";
    asio::post(test.io_, [&gone] { gone = true; });
  };
  const RawPeer peer(test.port_, {.files = test.pki_.files("d1"), .talk = talk});
  asio::co_spawn(test.io_, serve(test, gone), [](const std::exception_ptr&) {});
  test.io_.run_for(std::chrono::seconds(100));
  EXPECT_TRUE(test.io_.stopped());
  return answer;
}

TEST_F(ServerTest, LiarsAreToldWhy) {
  struct Case {
    Bytes lie;
    std::string told;
  };
  Bytes long_lie = header_of(0xffff'ffffU, 9);
  long_lie.resize(300'000, std::byte{0xa5});  // still on its way when the answer leaves
  Bytes bad_head = encode_frame(Update{.plan = {1}, .total_bytes = 2, .bytes = std::array<std::byte, 2>{}});
  bad_head[FrameHeader::kBytes + 20] = std::byte{1};  // total_bytes
  const Case cases[] = {{long_lie, "Update frame of 4294967295 bytes"},
                        {header_of(10, 200), "frame type 200 is unknown"},
                        {header_of(24, 6), "a device may not send a Settle"},
                        {bad_head, "Update.offset"},
                        {encode_frame(Hello{.software = "test"}), "a second hello"}};
  for (const Case& bad : cases) {
    SCOPED_TRACE(bad.told);
    const Message last = last_of(answer_to(*this, bad.lie));
    const auto* failure = std::get_if<Failure>(&last);
    ASSERT_NE(failure, nullptr);
    EXPECT_EQ(failure->code, FailureCode::protocol);
    EXPECT_THAT(failure->text, HasSubstr(bad.told));
    io_.restart();
  }
}

// Every byte at the sockets is in the totals, whatever became of its connection.
TEST_F(ServerTest, StrangersAreCounted) {
  start();
  const std::string text = "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n";
  bool gone = false;
  {
    const RawPeer peer(port_, {.files = {}, .plain_text = text});
    asio::co_spawn(io_, serve(*this, gone), [](const std::exception_ptr&) {});
    while (server_->socket_bytes().up_bytes < text.size() || server_->connections() > 0) io_.run_one();
    EXPECT_EQ(server_->socket_bytes().up_bytes, text.size());
  }
  gone = true;
  io_.run_for(std::chrono::seconds(100));
  EXPECT_TRUE(io_.stopped());
}

asio::awaitable<void> come_and_go(ServerTest& test, std::string name, bool hello, bool& gone) {
  TlsContext context = test.pki_.client(name);
  auto link = co_await Link::connect(test.io_.get_executor(), "127.0.0.1", test.port_, context, test_limits());
  EXPECT_TRUE(link.has_value()) << error_of(link);
  if (link && hello) {
    EXPECT_TRUE((*link)->send(encode_frame(Hello{.software = "test"})).has_value());
    EXPECT_TRUE((co_await (*link)->read(Sender::coordinator)).has_value());
    (*link)->close("enough");
  }
  if (link) {
    while (co_await (*link)->read(Sender::coordinator)) {
    }
    (*link)->close("it ended");
    const std::weak_ptr<Link> rest = *link;
    const auto same = [&] {
      const auto own = (*link)->counters();
      const auto theirs = test.server_->socket_bytes();
      return own.bytes_out == theirs.up_bytes && own.bytes_in == theirs.down_bytes;
    };
    // The goodbyes may still be on their way; CTest ends a test in which they never come.
    while (!same()) co_await turn(test.io_);
    EXPECT_GT((*link)->counters().bytes_in, 500U);
  }
  gone = true;
}

TEST_F(ServerTest, GoodbyesAndOperatorsAreCounted) {
  for (const std::string name : {"op", "d1"}) {
    SCOPED_TRACE(name);
    start();
    bool gone = false;
    run([](ServerTest& test, std::string who, bool& done) -> asio::awaitable<void> {
      co_await come_and_go(test, who, who == "d1", done);
      co_await serve(test, done);
    }(*this, name, gone));
  }
}

asio::awaitable<void> listen_in_silence(ServerTest& test) {
  TlsContext context = test.pki_.client();
  LinkLimits limits = test_limits();
  auto link = co_await Link::connect(test.io_.get_executor(), "127.0.0.1", test.port_, context, limits);
  EXPECT_TRUE(link.has_value()) << error_of(link);
  if (!link) co_return;
  EXPECT_TRUE((*link)->send(encode_frame(Hello{.software = "test"})).has_value());
  Heard heard = co_await hear(*link);
  EXPECT_TRUE(heard.message && std::holds_alternative<Welcome>(*heard.message));
  heard = co_await hear(*link);
  EXPECT_GE(heard.heartbeats, 1U) << heard.end;
  EXPECT_THAT(heard.end, HasSubstr("closed by the far side"));
  (*link)->close("it ended");
  const bool gone = true;
  co_await serve(test, gone);
}
// It is dropped after three heartbeats of silence, and has heard the coordinator's own until then.
TEST_F(ServerTest, TheCoordinatorShowsLifeUnasked) {
  config_.heartbeat = std::chrono::milliseconds(100);
  start();
  run(listen_in_silence(*this));
}

}  // namespace
}  // namespace gleaner::testing
