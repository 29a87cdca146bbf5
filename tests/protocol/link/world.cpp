#include "tests/protocol/link/world.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <fstream>

#include "common/clock.hpp"

namespace gleaner::testing {

using pki::CertificateRequest;
using pki::Role;
using pki::Validity;

const TestPki& TestPki::get() {
  static const TestPki pki;
  return pki;
}

TestPki::TestPki() {
  std::string pattern = (std::filesystem::temp_directory_path() / "gleaner_link_XXXXXX").string();
  folder_ = mkdtemp(pattern.data());
  const std::int64_t now = system_clock().wall_unix_ms() / 1000;
  const std::int64_t day = 86'400;
  const Validity valid = Validity::days(now, 30);
  const Validity always{.not_before_unix_s = now - 1000 * day, .not_after_unix_s = now + 1000 * day};
  const Validity past{.not_before_unix_s = now - 10 * day, .not_after_unix_s = now - day};
  const Validity future{.not_before_unix_s = now + day, .not_after_unix_s = now + 10 * day};
  for (const std::string ca : {"ca", "other"}) {
    EXPECT_TRUE(pki::make_ca("test " + ca, always, {path(ca + ".crt"), path(ca + ".key")}).has_value());
  }
  std::ofstream(path("both.crt")) << std::ifstream(path("ca.crt")).rdbuf() << std::ifstream(path("other.crt")).rdbuf();
  const std::vector<std::string> here{"localhost", "127.0.0.1", "::1"};
  for (const std::string name : {"d1", "d2"}) issue("ca", {.name = name, .addresses = {}, .validity = valid});
  issue("ca", {.role = Role::operator_, .name = "op", .addresses = {}, .validity = valid});
  issue("ca", {.role = Role::coordinator, .name = "coordinator", .addresses = here, .validity = valid});
  issue("ca", {.name = "late_device", .addresses = {}, .validity = past});
  issue("ca", {.name = "early_device", .addresses = {}, .validity = future});
  issue("ca", {.role = Role::coordinator, .name = "late_coordinator", .addresses = here, .validity = past});
  issue("ca", {.role = Role::coordinator, .name = "early_coordinator", .addresses = here, .validity = future});
  issue("other", {.name = "other_device", .addresses = {}, .validity = valid});
}

void TestPki::issue(const std::string& ca, CertificateRequest request) const {
  const Status status = pki::issue_certificate({path(ca + ".crt"), path(ca + ".key")}, request,
                                               {path(request.name + ".crt"), path(request.name + ".key")});
  EXPECT_TRUE(status.has_value()) << error_of(status);
}

TlsContext TestPki::server(const std::string& name, const std::string& ca) const {
  auto context = TlsContext::make_server(files(name, ca));
  EXPECT_TRUE(context.has_value()) << error_of(context);
  return std::move(context).value();
}

TlsContext TestPki::client(const std::string& name, const std::string& ca, const std::string& server_name) const {
  auto context = TlsContext::make_client(files(name, ca), server_name);
  EXPECT_TRUE(context.has_value()) << error_of(context);
  return std::move(context).value();
}

LinkLimits test_limits() {
  using std::chrono::milliseconds;
  return {.connect_timeout = milliseconds(90'000),
          .handshake_timeout = milliseconds(90'000),
          .idle_timeout = milliseconds(90'000),
          .frame_timeout = milliseconds(90'000),
          .write_timeout = milliseconds(90'000),
          .close_timeout = milliseconds(2'000)};
}

LinkTest::LinkTest() { acceptor_ = Acceptor::listen(io_.get_executor(), "127.0.0.1", 0).value(); }

void LinkTest::run(asio::awaitable<void> body) {
  io_.restart();  // a test may run several bodies
  bool ended = false;
  const auto done = [&ended](const std::exception_ptr& error) {
    ended = true;
    if (error) std::rethrow_exception(error);
  };
  asio::co_spawn(io_, std::move(body), done);
  io_.run_for(std::chrono::seconds(110));
  ASSERT_TRUE(ended) << "the test's body did not end";
  ASSERT_TRUE(io_.stopped()) << "something was left behind that does not end";
}

asio::awaitable<Link::Opened> LinkTest::accept_one(TlsContext context, LinkLimits limits) {
  auto socket = co_await acceptor_->accept();
  if (!socket) co_return fail(socket.error());
  co_return co_await Link::accept(std::move(*socket), std::move(context), limits);
}

asio::awaitable<Pair> LinkTest::open(TlsContext server, TlsContext client, LinkLimits server_limits,
                                     LinkLimits client_limits) {
  using asio::experimental::awaitable_operators::operator&&;
  auto accepting = accept_one(std::move(server), server_limits);
  auto connecting = Link::connect(io_.get_executor(), "127.0.0.1", port(), std::move(client), client_limits);
  auto [accepted, connected] = co_await (std::move(accepting) && std::move(connecting));
  co_return Pair{std::move(accepted), std::move(connected)};
}

}  // namespace gleaner::testing
