// How a link begins: name, address, TCP, TLS, and who the far side is.

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <vector>

#include "protocol/link/host_port.hpp"
#include "protocol/link/identify.hpp"
#include "protocol/link/link.hpp"

namespace gleaner {
namespace {

using asio::ip::tcp;
using boost::system::error_code;
constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kAddressesMax = 8;

// A name look-up or a connect with a time limit: whichever runs is cancelled when the time is over.
struct Attempt : std::enable_shared_from_this<Attempt> {
  explicit Attempt(const asio::any_io_executor& executor) : resolver(executor), socket(executor), timer(executor) {}

  void limit(std::chrono::milliseconds timeout) {
    expired = false;
    timer.expires_after(timeout);
    timer.async_wait([weak = weak_from_this()](const error_code& error) {
      const auto self = weak.lock();
      if (error || !self) return;
      self->expired = true;
      self->resolver.cancel();
      error_code ignored;
      self->socket.close(ignored);
    });
  }
  std::string outcome(const error_code& error) const { return expired ? "no answer in time" : error.message(); }

  tcp::resolver resolver;
  tcp::socket socket;
  asio::steady_timer timer;
  bool expired = false;
};

asio::awaitable<Result<std::vector<tcp::endpoint>>> look_up(std::shared_ptr<Attempt> attempt, std::string host,
                                                            std::uint16_t port, std::chrono::milliseconds timeout) {
  error_code error;
  const asio::ip::address literal = asio::ip::make_address(host, error);
  if (!error) co_return std::vector<tcp::endpoint>{tcp::endpoint(literal, port)};
  attempt->limit(timeout);
  const std::string service = std::to_string(port);
  const auto [failure, found] =
      co_await attempt->resolver.async_resolve(host, service, tcp::resolver::numeric_service, kAsTuple);
  attempt->timer.cancel();
  std::vector<tcp::endpoint> endpoints;
  for (const auto& entry : found) {
    if (endpoints.size() < kAddressesMax) endpoints.push_back(entry.endpoint());
  }
  if (!endpoints.empty()) co_return endpoints;
  co_return fail(ErrorCode::retry,
                 fmt::format("coordinator at {}: the name \"{}\" was not found: {}; check it and this "
                             "machine's DNS",
                             to_text(host, port), host, attempt->outcome(failure)));
}

asio::awaitable<Result<tcp::socket>> open_socket(asio::any_io_executor executor, std::string host, std::uint16_t port,
                                                 std::chrono::milliseconds timeout) {
  const auto attempt = std::make_shared<Attempt>(executor);
  const auto endpoints = co_await look_up(attempt, host, port, timeout);
  if (!endpoints) co_return fail(endpoints.error());
  std::string outcomes;
  for (const tcp::endpoint& endpoint : *endpoints) {
    attempt->limit(timeout);
    error_code error;
    attempt->socket.close(error);
    error = {};
    const auto [failure] = co_await attempt->socket.async_connect(endpoint, kAsTuple);
    attempt->timer.cancel();
    if (!failure && !attempt->expired) co_return std::move(attempt->socket);
    outcomes += fmt::format("{}{}: {}", outcomes.empty() ? "" : ", ", endpoint.address().to_string(),
                            attempt->outcome(failure));
    const auto state = co_await asio::this_coro::cancellation_state;
    if (state.cancelled() != asio::cancellation_type::none) break;
  }
  co_return fail(ErrorCode::retry, fmt::format("coordinator at {}: no connection ({}); does it run and listen there?",
                                               to_text(host, port), outcomes));
}

}  // namespace

asio::awaitable<Link::Opened> Link::accept(tcp::socket socket, TlsContext context, LinkLimits limits,
                                           std::shared_ptr<LinkTotals> totals) {
  error_code error;
  const tcp::endpoint remote = socket.remote_endpoint(error);
  if (error) co_return fail(ErrorCode::retry, "a connection was gone before it was accepted: " + error.message());
  std::string address = to_text(remote.address().to_string(), remote.port());
  std::shared_ptr<Link> link(new Link(std::move(socket), std::move(context), limits, std::move(address)));
  link->totals_ = std::move(totals);
  co_return co_await open(std::move(link));
}

asio::awaitable<Link::Opened> Link::connect(asio::any_io_executor executor, std::string host, std::uint16_t port,
                                            TlsContext context, LinkLimits limits) {
  Result<tcp::socket> socket = co_await open_socket(executor, host, port, limits.connect_timeout);
  if (!socket) co_return fail(socket.error());
  std::string address = to_text(host, port);
  std::shared_ptr<Link> link(new Link(std::move(*socket), std::move(context), limits, std::move(address)));
  co_return co_await open(std::move(link));
}

asio::awaitable<Link::Opened> Link::open(std::shared_ptr<Link> link) {
  Status status = co_await link->handshake();
  if (status) co_return link;
  Error error = std::move(status).error();
  link->abort(error);
  co_return fail(std::move(error));
}

asio::awaitable<Status> Link::handshake() {
  error_code error;
  socket_.non_blocking(true, error);
  if (!error) socket_.set_option(tcp::no_delay(true), error);
  if (error) co_return fail(ErrorCode::retry, fmt::format("{}: {}", address_, error.message()));
  if (!context_.is_server()) connection_.server = address_;
  ssl_.reset(context_.new_connection(socket_.native_handle(), connection_));
  if (!ssl_) co_return fail(ErrorCode::fatal, "no memory for a TLS connection");
  expect(Awaited::handshake, limits_.handshake_timeout);
  for (;;) {
    const Step step = try_handshake();
    if (step == Step::progress || step == Step::failed) break;
    co_await wait(step);
  }
  read_deadline_ = kNever;
  if (reason_) {
    co_await let_alert_arrive();
    co_return fail(*reason_);
  }
  awaited_ = Awaited::frame_start;
  heard_at_ = Clock::now();
  resumed_ = SSL_session_reused(ssl_.get()) == 1;
  co_return identify();
}

// Closing a socket with unread bytes makes the kernel cut the connection, and our alert, which says what is wrong,
// could be lost: it waits for the far side's end, for close_timeout at most.
asio::awaitable<void> Link::let_alert_arrive() {
  if (phase_ == Phase::closed) co_return;
  close_deadline_ = Clock::now() + limits_.close_timeout;
  arm_watchdog();
  error_code error;
  socket_.shutdown(tcp::socket::shutdown_send, error);
  std::array<std::byte, 1024> scratch{};
  while (phase_ != Phase::closed) {
    error = {};
    const std::size_t size = socket_.read_some(asio::buffer(scratch), error);
    if (totals_) totals_->bytes_in += size;
    if (error && error != asio::error::would_block) co_return;
    if (error) co_await wait(Step::want_read);
  }
}

Status Link::identify() {
  GLEANER_ASSIGN(peer_, identify_peer(context_, ssl_.get(), address_));
  return {};
}

}  // namespace gleaner
