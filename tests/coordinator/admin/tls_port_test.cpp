// The port for operators from elsewhere: who gets in, as whom, and what the others are told.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "coordinator/admin/client.hpp"
#include "protocol/pki/certificate.hpp"
#include "tests/coordinator/admin/fake_backend.hpp"
#include "tests/coordinator/admin/raw_peer.hpp"

namespace gleaner {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

AdminLimits patient() {
  AdminLimits limits;
  limits.request_timeout = 60s;
  return limits;
}

class TlsPort : public testing::Test {
 protected:
  TlsPort() { pki_.issue("ca", pki::Role::operator_, "alice"); }

  RemoteCoordinator as(const std::string& name, const std::string& ca = "ca") const {
    return {"127.0.0.1", server_.tls_port(), pki_.path(ca + ".pem"), pki_.path(name + ".pem"),
            pki_.path(name + ".key")};
  }
  // The first error on the way of one request.
  Error refused(const RemoteCoordinator& who) const {
    auto client = AdminClient::connect(who);
    if (!client) return client.error();
    const auto reply = client->get("/v1/runs");
    return reply ? Error(ErrorCode::fatal, "answered") : reply.error();
  }

  OperatorPki pki_;
  RunningServer server_{patient(), pki_.server()};
};

TEST_F(TlsPort, AnOperatorDoesEverythingUnderTheNameOfTheCertificate) {
  auto client = AdminClient::connect(as("alice"));
  ASSERT_TRUE(client) << client.error().message();
  const auto runs = client->get("/v1/runs");
  ASSERT_TRUE(runs) << runs.error().message();
  EXPECT_THAT(*runs, HasSubstr("\"night\""));
  ASSERT_TRUE(client->post("/v1/runs/demo/pause"));
  ASSERT_TRUE(client->post("/v1/runs?path=%2Fa.toml", std::string(900'000, 'x')));
  EXPECT_EQ(client->get("/v1/runs/demo?rounds=0").error().code(), ErrorCode::bad_input);
  const auto calls = server_.backend().calls();
  ASSERT_EQ(calls.size(), 3U);
  EXPECT_EQ(calls[1], "pause_run alice@127.0.0.1 demo");
  EXPECT_THAT(calls[2], testing::StartsWith("start_run alice@127.0.0.1 /a.toml xxx"));
}

TEST_F(TlsPort, AModelComesWhole) {
  const auto download = [](Result<AdminClient> client) {
    std::string model;
    const Status done = client->download("/v1/runs/demo/model", [&](ByteView piece, std::uint64_t) -> Status {
      model += as_text(piece);
      return {};
    });
    EXPECT_TRUE(done);
    return model;
  };
  const std::string model = download(AdminClient::connect(as("alice")));
  EXPECT_GT(model.size(), 100'000U);
  EXPECT_EQ(model, download(AdminClient::connect(server_.socket())));
}

TEST_F(TlsPort, ADevicesCertificateIsRefusedInWords) {
  pki_.issue("ca", pki::Role::device, "d1");
  const Error error = refused(as("d1"));
  EXPECT_EQ(error.code(), ErrorCode::peer_fault);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("device d1 is no operator's"), HasSubstr("--kind operator")));
  EXPECT_THAT(server_.backend().calls(), ElementsAre());
}

TEST_F(TlsPort, StrangersGetNoFurtherThanTheHandshake) {
  pki_.issue("other", pki::Role::operator_, "mallory");
  RemoteCoordinator mallory = as("mallory");
  EXPECT_THAT(refused(mallory).message(), HasSubstr("mallory.pem: not issued by a CA of"));
  mallory.ca = pki_.path("other.pem");
  EXPECT_THAT(refused(mallory).message(), HasSubstr("unknown CA"));
  EXPECT_EQ(ask_tcp(server_.tls_port(), "GET /v1/runs HTTP/1.1\r\nHost: x\r\n\r\n").find("HTTP/"), std::string::npos);
  EXPECT_THAT(server_.backend().calls(), ElementsAre());
  EXPECT_TRUE(AdminClient::connect(as("alice"))->get("/v1/runs"));
}

TEST_F(TlsPort, WhoIsDeniedIsOutAtTheNextRequest) {
  auto client = AdminClient::connect(as("alice"));
  ASSERT_TRUE(client->get("/v1/runs"));
  server_.deny(pki::inspect(pki_.path("alice.pem"))->serial);
  const auto reply = client->get("/v1/runs");
  ASSERT_FALSE(reply);
  EXPECT_THAT(reply.error().message(), HasSubstr("alice is on the deny list"));
  EXPECT_EQ(server_.backend().calls().size(), 1U);
}

TEST(TlsPortLimits, OneThatSaysNothingIsDropped) {
  AdminLimits limits;
  limits.request_timeout = 300ms;
  const OperatorPki pki;
  RunningServer server(limits, pki.server());
  EXPECT_TRUE(RawPeer::tcp(server.tls_port()).closes_within(20s));
}

TEST(TlsPortLimits, NobodyListensThereWithoutTheKey) {
  RunningServer server;
  EXPECT_EQ(server.tls_port(), 0U);
}

}  // namespace
}  // namespace gleaner
