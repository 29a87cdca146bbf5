#pragma once
// Administration over HTTP/1.1: the whole interface on a Unix socket that only its owner may use and, when one is
// configured, on a TLS port for operators with a certificate; the status page, metrics and health on a TCP port.
// Everything runs on the loop that it is given. A peer costs a bounded buffer for a bounded time, whatever it sends or
// does not send; the listeners have separate bounds, so that a crowd at one cannot close the other.

#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/clock.hpp"
#include "coordinator/admin/backend.hpp"
#include "coordinator/config.hpp"
#include "protocol/link/tls_context.hpp"

namespace gleaner {

struct AdminLimits {
  std::uint32_t header_bytes_max = 8U << 10;
  std::uint32_t body_bytes_max = 1U << 20;
  std::uint32_t connections_max = 64;                   // at each listener; more are closed at once
  Duration request_timeout = std::chrono::seconds(15);  // until a whole request is here, the wait for it included
  Duration answer_timeout = std::chrono::minutes(10);   // of the backend: a check of a large database takes minutes
  Duration write_timeout = std::chrono::seconds(30);    // for each piece of at most 1 MiB
};

struct AdminConfig {
  std::string socket;                // empty: no Unix socket
  Endpoint http{"127.0.0.1", 7480};  // empty host: no TCP port; port 0: a free one
  Endpoint tls;                      // empty host: no port for remote operators; port 0: a free one
  // With tls: the certificates to use for the next connection, and who is denied although the CA vouches for it.
  std::function<std::optional<TlsContext>()> tls_context = {};
  std::function<bool(const PeerIdentity&)> is_denied = {};
  AdminLimits limits;
};

class AdminServer {
 public:
  // backend must live until stop() returned.
  AdminServer(boost::asio::any_io_executor loop, AdminBackend& backend);
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;
  ~AdminServer();

  // Once, on the loop or before it runs. Errors: conflict (somebody listens there), bad_input (an address that is no
  // address of this machine, a path that cannot be a socket), fatal; then nothing is open.
  Status start(const AdminConfig& config);

  // On the loop or after it: closes everything; the backend is not called any more. Idempotent.
  void stop();

  std::uint16_t http_port() const;  // 0 before start()
  std::uint16_t tls_port() const;   // 0 before start() and without the port

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace gleaner
