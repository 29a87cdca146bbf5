#pragma once
// What the tests of the link share: a PKI in a temporary folder, an io_context, links opened in pairs over 127.0.0.1.

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <filesystem>
#include <string>

#include "protocol/link/acceptor.hpp"
#include "protocol/link/link.hpp"
#include "protocol/pki/issue.hpp"

namespace gleaner::testing {

// Made once for the whole program: "ca" issued everything but what says "other".
class TestPki {
 public:
  static const TestPki& get();
  ~TestPki() { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  TlsFiles files(const std::string& name, const std::string& ca = "ca") const {
    return {.ca = path(ca + ".crt"), .certificate = path(name + ".crt"), .key = path(name + ".key")};
  }
  TlsContext server(const std::string& name = "coordinator", const std::string& ca = "ca") const;
  TlsContext client(const std::string& name = "d1", const std::string& ca = "ca",
                    const std::string& server_name = "localhost") const;

 private:
  TestPki();
  void issue(const std::string& ca, pki::CertificateRequest request) const;
  std::string folder_;
};

struct Pair {
  Link::Opened server;
  Link::Opened client;
};

// Limits that even a very busy machine keeps; a test that is about a limit sets its own.
LinkLimits test_limits();

class LinkTest : public ::testing::Test {
 protected:
  LinkTest();

  // Runs the test's body to its end, and then what it left behind; within CTest's limit.
  void run(asio::awaitable<void> body);

 public:
  // A TLS connection over a free port. *this outlives the coroutine.
  asio::awaitable<Pair> open(TlsContext server, TlsContext client, LinkLimits server_limits = test_limits(),
                             LinkLimits client_limits = test_limits());
  asio::awaitable<Link::Opened> accept_one(TlsContext context, LinkLimits limits);
  std::uint16_t port() const { return acceptor_->endpoint().port(); }

  asio::io_context io_{1};
  const TestPki& pki_ = TestPki::get();
  std::unique_ptr<Acceptor> acceptor_;
};

template <class T>
std::string error_of(const Result<T>& result) {
  return result ? "no error" : result.error().message();
}

}  // namespace gleaner::testing
