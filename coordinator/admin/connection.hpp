#pragma once
// One HTTP connection: reads requests, has them answered, writes replies, within the limits. For server.cpp.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <functional>
#include <string>

#include "coordinator/admin/api.hpp"
#include "coordinator/admin/server.hpp"
#include "protocol/link/tls_context.hpp"

namespace gleaner::admin {

// How requests at one listener are answered, and which of them are taken.
struct Door {
  boost::asio::awaitable<Reply> (*answer)(Call) = nullptr;
  std::uint32_t body_bytes_max = 0;
  std::function<Status()> allows = {};  // asked before each answer; none: everybody may
};

// The same for operators who come over TLS.
struct TlsDoor {
  TlsContext context;
  std::function<Status(const PeerIdentity& peer)> allows;
  std::function<void(const std::string& host, const Error& error)> trouble;  // who did not get in, and why
};

// backend() is null once the server was stopped. Ends when the peer closes, is too slow or sends what is no HTTP.
boost::asio::awaitable<void> serve(boost::asio::local::stream_protocol::socket socket, Door door, AdminLimits limits,
                                   std::function<AdminBackend*()> backend);
boost::asio::awaitable<void> serve(boost::asio::ip::tcp::socket socket, Door door, AdminLimits limits,
                                   std::function<AdminBackend*()> backend);
// For operators only, each under the name of its certificate.
boost::asio::awaitable<void> serve_tls(boost::asio::ip::tcp::socket socket, TlsDoor door, AdminLimits limits,
                                       std::function<AdminBackend*()> backend);

}  // namespace gleaner::admin
