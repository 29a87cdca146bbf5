#include "protocol/link/acceptor.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "common/log.hpp"
#include "protocol/link/host_port.hpp"

namespace gleaner {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr int kBacklog = 4096;  // a fleet that lost its coordinator comes back within seconds
constexpr std::chrono::milliseconds kPause{100};
constexpr std::chrono::seconds kLogInterval{10};
constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);

Result<tcp::endpoint> endpoint_of(const asio::any_io_executor& executor, const std::string& host, std::uint16_t port) {
  error_code error;
  const asio::ip::address address = asio::ip::make_address(host, error);
  if (!error) return tcp::endpoint(address, port);
  tcp::resolver resolver(executor);
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, error);
  if (!error && !found.empty()) return found.begin()->endpoint();
  return fail(ErrorCode::bad_input, fmt::format("cannot listen on {}: \"{}\" is neither an address nor a known name; "
                                                "[::] listens on every address of this machine",
                                                to_text(host, port), host));
}

}  // namespace

Result<std::unique_ptr<Acceptor>> Acceptor::listen(const asio::any_io_executor& executor, const std::string& host,
                                                   std::uint16_t port) {
  GLEANER_ASSIGN(const tcp::endpoint endpoint, endpoint_of(executor, host, port));
  std::unique_ptr<Acceptor> self(new Acceptor(executor));
  tcp::acceptor& acceptor = self->acceptor_;
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error && endpoint.address().is_v6()) acceptor.set_option(asio::ip::v6_only(false), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(kBacklog, error);
  if (!error) self->endpoint_ = acceptor.local_endpoint(error);
  if (!error) return self;
  const bool taken = error == asio::error::address_in_use;
  std::string hint = taken ? "another program listens there: stop it or choose another port" : error.message();
  if (error == asio::error::address_family_not_supported) hint = "this machine has no IPv6: listen on 0.0.0.0";
  if (error == asio::error::access_denied) hint = "ports below 1024 need a privilege: choose a higher one";
  return fail(taken ? ErrorCode::conflict : ErrorCode::bad_input,
              fmt::format("cannot listen on {}: {}", to_text(host, port), hint));
}

asio::awaitable<Result<tcp::socket>> Acceptor::accept() {
  for (;;) {
    auto [error, socket] = co_await acceptor_.async_accept(kAsTuple);
    if (!error) co_return std::move(socket);
    const auto state = co_await asio::this_coro::cancellation_state;
    if (state.cancelled() != asio::cancellation_type::none || !acceptor_.is_open()) {
      co_return fail(ErrorCode::retry, "no longer listening");
    }
    if (error == asio::error::connection_aborted) continue;  // it was gone before it was taken
    ++shortages_;
    log_shortage(error.message());
    pause_.expires_after(kPause);
    co_await pause_.async_wait(kAsTuple);
  }
}

void Acceptor::close() {
  error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
}

void Acceptor::log_shortage(const std::string& why) {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_log_) return;
  next_log_ = now + kLogInterval;
  log_warn(
      "no new connections for now: {} ({} waits since the last such line); raise the limit of open files "
      "(LimitNOFILE, ulimit -n)",
      why, shortages_ - shortages_logged_);
  shortages_logged_ = shortages_;
}

std::size_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  rlimit raised = limit;
  raised.rlim_cur = raised.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  return static_cast<std::size_t>(limit.rlim_cur);
}

}  // namespace gleaner
