// Each way in which TLS can fail, with what is said on each side.

#include <gmock/gmock.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "protocol/link/tls_error.hpp"
#include "tests/protocol/link/raw_peer.hpp"
#include "tests/protocol/link/world.hpp"

namespace gleaner::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TlsTest : public LinkTest {
 public:
  // What accept() makes of a raw client. *this outlives the coroutine.
  asio::awaitable<void> accept_bad(Error& error, LinkLimits limits = test_limits()) {
    const auto link = co_await accept_one(pki_.server(), limits);
    if (!link) error = link.error();
  }
  asio::awaitable<void> connect_bad(Error& error, std::uint16_t port, LinkLimits limits = test_limits()) {
    const auto link = co_await Link::connect(io_.get_executor(), "127.0.0.1", port, pki_.client(), limits);
    if (!link) error = link.error();
  }
  Error refused_client(RawOptions options) {
    Error error(ErrorCode::fatal, "accepted");
    const RawPeer peer(port(), std::move(options));
    run(accept_bad(error));
    return error;
  }
  Error refused_server(RawOptions options) {
    Error error(ErrorCode::fatal, "connected");
    const RawPeer peer(std::move(options));
    run(connect_bad(error, peer.port()));
    return error;
  }
  asio::awaitable<void> open_bad(TlsContext server, TlsContext client, Error& server_error, Error& client_error) {
    Pair pair = co_await open(std::move(server), std::move(client));
    if (!pair.server) server_error = pair.server.error();
    if (!pair.client) client_error = pair.client.error();
    if (pair.client) {
      // As a device does: it speaks at once, and the bytes cross the refusal.
      EXPECT_TRUE((*pair.client)->send(encode_frame(Hello{.software = "test"})).has_value());
      const auto frame = co_await (*pair.client)->read(Sender::coordinator);
      if (!frame) client_error = frame.error();
    }
  }

  Error server_error_{ErrorCode::fatal, "none"}, client_error_{ErrorCode::fatal, "none"};
};

TEST_F(TlsTest, ClientKnowsAnotherCa) {
  run(open_bad(pki_.server(), pki_.client("other_device", "other"), server_error_, client_error_));
  EXPECT_EQ(client_error_.code(), ErrorCode::retry);
  EXPECT_THAT(client_error_.message(), AllOf(HasSubstr("coordinator at 127.0.0.1"), HasSubstr("unknown CA"),
                                             HasSubstr("other.crt"), HasSubstr("\"test ca\"")));
  EXPECT_EQ(server_error_.code(), ErrorCode::peer_fault);
  EXPECT_THAT(server_error_.message(), AllOf(HasSubstr("peer at 127.0.0.1"), HasSubstr("refused our certificate"),
                                             HasSubstr("unknown CA"), HasSubstr("coordinator.crt")));
}

TEST_F(TlsTest, ServerDoesNotKnowTheClientsCa) {
  run(open_bad(pki_.server(), pki_.client("other_device", "both"), server_error_, client_error_));
  EXPECT_THAT(server_error_.message(), AllOf(HasSubstr("unknown CA"), HasSubstr("\"other_device\""),
                                             HasSubstr("\"test other\""), HasSubstr("ca.crt")));
  EXPECT_EQ(client_error_.code(), ErrorCode::retry);
  EXPECT_THAT(client_error_.message(),
              AllOf(HasSubstr("refused our certificate"), HasSubstr("is it issued by the coordinator's CA?")));
}

TEST_F(TlsTest, NameMismatch) {
  run(open_bad(pki_.server(), pki_.client("d1", "ca", "fl.example.org"), server_error_, client_error_));
  EXPECT_THAT(client_error_.message(),
              AllOf(HasSubstr("localhost, 127.0.0.1 and ::1"), HasSubstr("not for fl.example.org")));
  EXPECT_THAT(server_error_.message(), AllOf(HasSubstr("refused our certificate"), HasSubstr("localhost")));
}

TEST_F(TlsTest, AddressMismatch) {
  run(open_bad(pki_.server(), pki_.client("d1", "ca", "192.0.2.1"), server_error_, client_error_));
  EXPECT_THAT(client_error_.message(), HasSubstr("not for 192.0.2.1"));
}

TEST_F(TlsTest, ExpiredDevice) {
  const Error error = refused_client({.files = pki_.files("late_device")});
  EXPECT_EQ(error.code(), ErrorCode::peer_fault);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("\"late_device\" expired at 20"), HasSubstr("clock")));
}

TEST_F(TlsTest, DeviceNotYetValid) {
  const Error error = refused_client({.files = pki_.files("early_device")});
  EXPECT_THAT(error.message(), AllOf(HasSubstr("\"early_device\" is not valid before"), HasSubstr("clock")));
}

TEST_F(TlsTest, ExpiredCoordinator) {
  const Error error = refused_server({.files = pki_.files("late_coordinator")});
  EXPECT_EQ(error.code(), ErrorCode::retry);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("coordinator at"), HasSubstr("expired at")));
}

TEST_F(TlsTest, CoordinatorNotYetValid) {
  const Error error = refused_server({.files = pki_.files("early_coordinator")});
  EXPECT_EQ(error.code(), ErrorCode::retry);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("not valid before"), HasSubstr("clock")));
}

// Tried again and again: the line must stay the same, and a clock in it would make every one new.
TEST_F(TlsTest, DatesAreSaidInALineThatStaysTheSame) {
  const std::string day = "this machine's clock says [0-9]{4}-[0-9]{2}-[0-9]{2}[^T]";
  for (const Error& error :
       {refused_client({.files = pki_.files("late_device")}), refused_client({.files = pki_.files("early_device")}),
        refused_server({.files = pki_.files("late_coordinator")}),
        refused_server({.files = pki_.files("early_coordinator")})}) {
    EXPECT_THAT(error.message(), ::testing::ContainsRegex(day));
  }
}

TEST_F(TlsTest, ClientWithoutCertificate) {
  const Error error = refused_client({.files = {}});
  EXPECT_EQ(error.code(), ErrorCode::peer_fault);
  EXPECT_THAT(error.message(), HasSubstr("sent no certificate"));
}

TEST_F(TlsTest, CertificateForTheOtherSide) {
  EXPECT_THAT(refused_client({.files = pki_.files("coordinator")}).message(), HasSubstr("not meant for a device"));
  EXPECT_THAT(refused_server({.files = pki_.files("d1")}).message(), HasSubstr("not meant for a coordinator"));
}

TEST_F(TlsTest, PlainTextClients) {
  const std::string texts[] = {"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
                               "CONNECT a:1 HTTP/1.1\r\n\r\n",
                               "hello, is there anybody?\n",
                               std::string(64, '\0'),
                               std::string(64, '\xff'),
                               "SSH-2.0-OpenSSH_9.2\r\n"};
  for (const std::string& text : texts) {
    const Error error = refused_client({.files = {}, .plain_text = text});
    EXPECT_EQ(error.code(), ErrorCode::peer_fault) << text;
    EXPECT_THAT(error.message(), HasSubstr("does not speak TLS")) << text;
  }
}

TEST_F(TlsTest, PlainTextServers) {
  for (const std::string text :
       {"220 mail.example.org ESMTP\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", "SSH-2.0-x\r\n"}) {
    const Error error = refused_server({.files = {}, .plain_text = text});
    EXPECT_EQ(error.code(), ErrorCode::retry) << text;
    EXPECT_THAT(error.message(), HasSubstr("is this the coordinator's port?")) << text;
  }
}

TEST_F(TlsTest, OldProtocols) {
  EXPECT_THAT(refused_client({.files = pki_.files("d1"), .tls_version_max = TLS1_2_VERSION}).message(),
              HasSubstr("does not speak TLS 1.3"));
  EXPECT_THAT(refused_server({.files = pki_.files("coordinator"), .tls_version_max = TLS1_2_VERSION}).message(),
              HasSubstr("does not speak TLS 1.3"));
}

asio::awaitable<void> connect_silently(asio::io_context& io, std::uint16_t port, asio::ip::tcp::socket& socket) {
  socket = asio::ip::tcp::socket(io);
  socket.connect({asio::ip::make_address("127.0.0.1"), port});
  co_return;
}

TEST_F(TlsTest, SilentClient) {
  asio::ip::tcp::socket socket(io_);
  asio::co_spawn(io_, connect_silently(io_, port(), socket), [](const std::exception_ptr&) {});
  Error error(ErrorCode::fatal, "accepted");
  LinkLimits limits = test_limits();
  limits.handshake_timeout = std::chrono::milliseconds(30);
  run(accept_bad(error, limits));
  EXPECT_EQ(error.code(), ErrorCode::retry);
  EXPECT_THAT(error.message(), HasSubstr("no TLS handshake in time"));
}

TEST_F(TlsTest, NobodyListens) {
  std::uint16_t port = 0;
  {
    const auto other = Acceptor::listen(io_.get_executor(), "127.0.0.1", 0).value();
    port = other->endpoint().port();
  }
  Error error(ErrorCode::fatal, "connected");
  run(connect_bad(error, port));
  EXPECT_EQ(error.code(), ErrorCode::retry);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("Connection refused"), HasSubstr("does it run and listen there?")));
}

TEST_F(TlsTest, OwnFiles) {
  const auto server = [](const TlsFiles& files) { return TlsContext::make_server(files); };
  const auto client = [](const TlsFiles& files) { return TlsContext::make_client(files, "localhost"); };
  const auto expect = [](const Result<TlsContext>& context, ErrorCode code, const std::string& text) {
    ASSERT_FALSE(context.has_value()) << text;
    EXPECT_EQ(context.error().code(), code);
    EXPECT_THAT(context.error().message(), HasSubstr(text));
  };
  expect(client(pki_.files("late_device")), ErrorCode::bad_input, "expired at");
  expect(client(pki_.files("early_device")), ErrorCode::retry, "clock");
  expect(client(pki_.files("coordinator")), ErrorCode::bad_input, "no device's or operator's certificate");
  expect(server(pki_.files("d1")), ErrorCode::bad_input, "no coordinator's certificate");
  expect(client(pki_.files("d1", "other")), ErrorCode::bad_input, "not issued by a CA of");
  TlsFiles files = pki_.files("d1");
  files.key = pki_.path("d2.key");
  expect(client(files), ErrorCode::bad_input, "does not belong to the certificate");
  files = pki_.files("d1");
  files.ca = pki_.path("none.crt");
  expect(client(files), ErrorCode::bad_input, "none.crt: the certificate cannot be read: No such file");
  files = pki_.files("d1");
  files.certificate = "";
  expect(client(files), ErrorCode::bad_input, "no file for the certificate");
  expect(TlsContext::make_client(pki_.files("d1"), ""), ErrorCode::bad_input, "no name of the coordinator");
}

TEST_F(TlsTest, AlertsAreTranslated) {
  const TlsContext context = pki_.client();
  const auto told = [&context](int alert) {
    const TlsFault fault{.ssl_error = SSL_ERROR_SSL, .queue_code = ERR_PACK(ERR_LIB_SSL, 0, 1000 + alert)};
    EXPECT_TRUE(is_alert(fault));
    return describe_tls_fault(context, TlsConnection(), "a:1", fault).message();
  };
  EXPECT_THAT(told(SSL_AD_CERTIFICATE_EXPIRED), AllOf(HasSubstr("d1.crt"), HasSubstr("expired")));
  EXPECT_THAT(told(SSL_AD_CERTIFICATE_REQUIRED), HasSubstr("wants a certificate"));
  EXPECT_THAT(told(SSL_AD_CERTIFICATE_REVOKED), HasSubstr("revoked"));
  EXPECT_THAT(told(SSL_AD_PROTOCOL_VERSION), HasSubstr("TLS 1.3"));
  EXPECT_THAT(told(SSL_AD_INTERNAL_ERROR), HasSubstr("internal error"));
}

}  // namespace
}  // namespace gleaner::testing
