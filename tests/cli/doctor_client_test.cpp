// gleaner doctor on a device, against a coordinator that does nothing but the handshake.

#include <gmock/gmock.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <optional>
#include <thread>

#include "protocol/link/acceptor.hpp"
#include "protocol/link/link.hpp"
#include "protocol/link/task_group.hpp"
#include "tests/cli/doctor_world.hpp"

namespace gleaner::cli {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

class HandshakeServer {
 public:
  explicit HandshakeServer(const TlsFiles& files) : tasks_(loop_.get_executor(), 16) {
    auto context = TlsContext::make_server(files);
    EXPECT_TRUE(context) << context.error().message();
    auto acceptor = Acceptor::listen(loop_.get_executor(), "127.0.0.1", 0);
    EXPECT_TRUE(acceptor) << acceptor.error().message();
    acceptor_ = std::move(*acceptor);
    EXPECT_TRUE(tasks_.spawn("accepting", accept_all(this, *context)));
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~HandshakeServer() {
    boost::asio::post(loop_, [this] {
      acceptor_->close();
      tasks_.cancel();
    });
    thread_.join();
  }
  std::uint16_t port() const { return acceptor_->endpoint().port(); }

 private:
  static asio::awaitable<void> accept_all(HandshakeServer* self, TlsContext context) {
    while (true) {
      auto socket = co_await self->acceptor_->accept();
      if (!socket) co_return;
      const Status spawned = self->tasks_.spawn("link", hold(std::move(*socket), context));
      if (!spawned) co_return;
    }
  }
  static asio::awaitable<void> hold(asio::ip::tcp::socket socket, TlsContext context) {
    const LinkLimits limits;
    const auto link = co_await Link::accept(std::move(socket), context, limits);
    if (!link) co_return;
    const auto frame = co_await (*link)->read(Sender::device);
    EXPECT_FALSE(frame) << "the doctor sends no message";
  }

  boost::asio::io_context loop_{1};
  TaskGroup tasks_;
  std::unique_ptr<Acceptor> acceptor_;
  std::thread thread_;
};

class DoctorOnADevice : public DoctorWorld {
 protected:
  DoctorOnADevice() { write_data(); }
  TlsFiles files(const std::string& name, const std::string& ca = "ca") const {
    return {path(ca + ".pem"), path(name + ".pem"), path(name + ".key")};
  }
};

TEST_F(DoctorOnADevice, ASoundOneReachesItsCoordinator) {
  const HandshakeServer server(files("server"));
  write_client(server.port());
  const Diagnosis found = client();
  EXPECT_EQ(found.code, kOk) << found.text;
  EXPECT_THAT(found.lines_with("FAIL"), IsEmpty());
  EXPECT_THAT(found.text, HasSubstr("ok    this device is device\n"));
  EXPECT_THAT(found.text, HasSubstr("data mine: 20 samples of 16 features in 10 classes"));
  EXPECT_THAT(found.text, HasSubstr("ok    TLS handshake"));
}

TEST_F(DoctorOnADevice, NobodyListens) {
  std::uint16_t port = 0;
  {
    const HandshakeServer server(files("server"));
    port = server.port();
  }
  write_client(port);
  const Diagnosis found = client();
  EXPECT_EQ(found.code, kFailure);
  EXPECT_THAT(found.lines_with("FAIL"), Contains(AllOf(HasSubstr("127.0.0.1"), HasSubstr("nobody listens there"))));
}

TEST_F(DoctorOnADevice, ANameThatIsNotKnown) {
  write_client(7433, "device", "no-such-host.invalid");
  const Diagnosis found = client();
  EXPECT_EQ(found.code, kFailure);
  EXPECT_THAT(found.lines_with("FAIL"), Contains(AllOf(HasSubstr("no-such-host.invalid"), HasSubstr("DNS"))));
}

TEST_F(DoctorOnADevice, ACoordinatorOfAnotherAuthority) {
  make_authority("other");
  issue("foreign", pki::Role::coordinator, -1, 365, "other");
  const HandshakeServer server(files("foreign", "other"));
  write_client(server.port());
  const Diagnosis found = client();
  EXPECT_EQ(found.code, kFailure);
  ASSERT_EQ(found.lines_with("FAIL").size(), 1U) << found.text;
  EXPECT_THAT(found.lines_with("FAIL"), Contains(HasSubstr("ca.pem")));
}

TEST_F(DoctorOnADevice, ACoordinatorThatDoesNotKnowTheDevicesAuthority) {
  make_authority("other");
  const HandshakeServer server(files("server"));
  issue("foreigner", pki::Role::device, -1, 365, "other");
  // Trusts the coordinator, but is vouched for by somebody else.
  write("both.pem", read("ca.pem") + read("other.pem"));
  write_client(server.port(), "foreigner");
  std::string text = read("client.toml");
  text.replace(text.find("ca.pem"), 6, "both.pem");
  write("client.toml", text);
  const Diagnosis found = client();
  EXPECT_EQ(found.code, kFailure);
  ASSERT_EQ(found.lines_with("FAIL").size(), 1U) << found.text;
  EXPECT_THAT(found.lines_with("FAIL"), Contains(HasSubstr("foreigner.pem")));
}

TEST_F(DoctorOnADevice, AServerThatIsNoCoordinator) {
  const RunningServer http;
  write_client(http.http_port());
  const Diagnosis found = client();
  EXPECT_EQ(found.code, kFailure);
  EXPECT_EQ(found.lines_with("FAIL").size(), 1U) << found.text;
}

TEST_F(DoctorOnADevice, ACertificateWithoutADeviceAndDataThatIsDamaged) {
  const HandshakeServer server(files("server"));
  issue("alice", pki::Role::operator_, -1, 365);
  write_client(server.port(), "alice");
  write("data/train-labels-idx1-ubyte", "damaged");
  const Diagnosis found = client();
  EXPECT_EQ(found.code, kFailure);
  EXPECT_THAT(found.lines_with("FAIL"), Contains(AllOf(HasSubstr("alice.pem"), HasSubstr("urn:gleaner:device:"))));
  EXPECT_THAT(found.lines_with("FAIL"), Contains(AllOf(HasSubstr("data mine"), HasSubstr("train-labels"))));
}

}  // namespace
}  // namespace gleaner::cli
