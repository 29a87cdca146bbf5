#include "coordinator/admin/server.hpp"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>
#include <utility>

#include "common/check.hpp"
#include "common/clock.hpp"
#include "common/log.hpp"
#include "coordinator/admin/connection.hpp"
#include "coordinator/admin/unix_socket.hpp"
#include "protocol/link/acceptor.hpp"
#include "protocol/link/change_log.hpp"
#include "protocol/link/host_port.hpp"
#include "protocol/link/task_group.hpp"

namespace gleaner {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using asio::local::stream_protocol;

constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);
constexpr Duration kPauseWhenOutOfFiles = std::chrono::seconds(1);

}  // namespace

class AdminServer::State : public std::enable_shared_from_this<AdminServer::State> {
 public:
  State(asio::any_io_executor loop, AdminBackend& backend) : loop_(std::move(loop)), backend_(&backend) {}

  Status start(const AdminConfig& config) {
    GLEANER_CHECK(backend_ != nullptr && !listeners_);
    limits_ = config.limits;
    tls_context_ = config.tls_context;
    is_denied_ = config.is_denied;
    GLEANER_CHECK(config.tls.host.empty() || (tls_context_ && is_denied_));
    std::unique_ptr<Acceptor> http;
    if (!config.http.host.empty()) {
      auto listening = Acceptor::listen(loop_, config.http.host, config.http.port);
      if (!listening) return fail(listening.error().within("admin.http"));
      http = std::move(*listening);
    }
    std::unique_ptr<Acceptor> tls;
    if (!config.tls.host.empty()) {
      auto listening = Acceptor::listen(loop_, config.tls.host, config.tls.port);
      if (!listening) return fail(listening.error().within("admin.tls"));
      tls = std::move(*listening);
    }
    if (!config.socket.empty()) {
      auto listening = admin::UnixListener::listen(config.socket);
      if (!listening) return fail(listening.error().within("admin.socket"));
      name_.emplace(std::move(*listening));
      unix_.emplace(loop_, stream_protocol(), name_->release());
    }
    http_ = std::move(http);
    tls_ = std::move(tls);
    listeners_.emplace(loop_, 3);
    operators_.emplace(loop_, limits_.connections_max);
    remote_.emplace(loop_, limits_.connections_max);
    public_.emplace(loop_, limits_.connections_max);
    if (unix_) {
      GLEANER_TRY(listeners_->spawn("admin socket", accept_operators(shared_from_this())));
      log_info("admin: the operator's socket is {}", config.socket);
    }
    if (http_) {
      GLEANER_TRY(listeners_->spawn("admin HTTP port", accept_anybody(shared_from_this())));
      log_info("admin: status page, metrics and health at http://{}/", to_text(config.http.host, http_port()));
    }
    if (tls_) {
      GLEANER_TRY(listeners_->spawn("admin TLS port", accept_remote(shared_from_this())));
      log_info("admin: operators with a certificate at {}", to_text(config.tls.host, tls_port()));
    }
    return {};
  }

  void stop() {
    backend_ = nullptr;
    boost::system::error_code ignored;
    if (unix_) unix_->close(ignored);
    if (http_) http_->close();
    if (tls_) tls_->close();
    name_.reset();
    for (auto* group : {&listeners_, &operators_, &remote_, &public_}) {
      if (*group) (*group)->cancel();
    }
  }

  std::uint16_t tls_port() const { return tls_ ? tls_->endpoint().port() : std::uint16_t{0}; }
  std::uint16_t http_port() const { return http_ ? http_->endpoint().port() : std::uint16_t{0}; }

 private:
  // What connections hold: the backend as long as there is one to call.
  std::function<AdminBackend*()> backend_while_running() {
    return [weak = weak_from_this()]() -> AdminBackend* {
      const auto state = weak.lock();
      return state ? state->backend_ : nullptr;
    };
  }

  template <class Socket>
  void take(TaskGroup& group, Socket socket, admin::Door door) {
    take(group, admin::serve(std::move(socket), std::move(door), limits_, backend_while_running()));
  }
  static void take(TaskGroup& group, asio::awaitable<void> serving) {
    const Status taken = group.spawn("admin connection", std::move(serving));
    if (!taken) log_debug("admin: one connection more was closed at once: {}", taken.error().message());
  }

  static asio::awaitable<void> accept_operators(std::shared_ptr<State> self) {
    co_await asio::this_coro::throw_if_cancelled(false);
    const admin::Door door{admin::answer_operator, self->limits_.body_bytes_max};
    while (true) {
      auto [error, socket] = co_await self->unix_->async_accept(kAsTuple);
      if (self->backend_ == nullptr) co_return;
      if (!error) {
        self->take(*self->operators_, std::move(socket), door);
        continue;
      }
      log_warn("admin: no connection can be accepted at the operator's socket: {}", error.message());
      asio::steady_timer pause(self->loop_, kPauseWhenOutOfFiles);
      co_await pause.async_wait(kAsTuple);
    }
  }

  static asio::awaitable<void> accept_anybody(std::shared_ptr<State> self) {
    const admin::Door door{admin::answer_public, 0};
    while (true) {
      auto socket = co_await self->http_->accept();
      if (!socket || self->backend_ == nullptr) co_return;
      self->take(*self->public_, std::move(*socket), door);
    }
  }

  static asio::awaitable<void> accept_remote(std::shared_ptr<State> self) {
    while (true) {
      auto socket = co_await self->tls_->accept();
      if (!socket || self->backend_ == nullptr) co_return;
      auto context = self->tls_context_();
      if (!context) continue;
      admin::TlsDoor door{std::move(*context), self->operator_check(), self->trouble_log()};
      take(*self->remote_,
           admin::serve_tls(std::move(*socket), std::move(door), self->limits_, self->backend_while_running()));
    }
  }

  std::function<Status(const PeerIdentity&)> operator_check() {
    return [weak = weak_from_this()](const PeerIdentity& peer) -> Status {
      const auto state = weak.lock();
      if (!state || state->backend_ == nullptr) return fail(ErrorCode::retry, "the coordinator is going down");
      if (peer.kind != PeerKind::operator_) {
        return fail(ErrorCode::peer_fault,
                    fmt::format("the certificate of device {} is no operator's: issue one with `gleaner pki "
                                "issue NAME --kind operator`; devices connect to the other port",
                                peer.name));
      }
      if (peer.not_after_unix_s < system_clock().wall_unix_ms() / 1000) {
        return fail(ErrorCode::peer_fault, fmt::format("the certificate of operator {} has expired", peer.name));
      }
      if (!state->is_denied_(peer)) return {};
      return fail(ErrorCode::peer_fault, fmt::format("operator {} is on the deny list", peer.name));
    };
  }

  std::function<void(const std::string&, const Error&)> trouble_log() {
    return [weak = weak_from_this()](const std::string& host, const Error& error) {
      const auto state = weak.lock();
      if (!state) return;
      // Without the far side's port, which is another one each time.
      const std::string& message = error.message();
      const auto colon = message.find(": ");
      const std::string what = colon == std::string::npos ? message : message.substr(colon + 2);
      if (state->trouble_.note(host, what)) log_warn("admin: operator's connection from {}: {}", host, what);
    };
  }

  const asio::any_io_executor loop_;
  AdminBackend* backend_;
  AdminLimits limits_;
  std::optional<admin::UnixListener> name_;
  std::optional<stream_protocol::acceptor> unix_;
  std::unique_ptr<Acceptor> http_;
  std::unique_ptr<Acceptor> tls_;
  std::function<std::optional<TlsContext>()> tls_context_;
  std::function<bool(const PeerIdentity&)> is_denied_;
  ChangeLog trouble_;
  std::optional<TaskGroup> listeners_;
  std::optional<TaskGroup> operators_;
  std::optional<TaskGroup> remote_;
  std::optional<TaskGroup> public_;
};

AdminServer::AdminServer(asio::any_io_executor loop, AdminBackend& backend)
    : state_(std::make_shared<State>(std::move(loop), backend)) {}

AdminServer::~AdminServer() { stop(); }

Status AdminServer::start(const AdminConfig& config) { return state_->start(config); }

void AdminServer::stop() { state_->stop(); }

std::uint16_t AdminServer::http_port() const { return state_->http_port(); }
std::uint16_t AdminServer::tls_port() const { return state_->tls_port(); }

}  // namespace gleaner
