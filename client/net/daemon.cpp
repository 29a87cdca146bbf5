#include "client/net/daemon.hpp"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <thread>

#include "client/net/worker.hpp"
#include "common/check.hpp"
#include "common/hash.hpp"
#include "common/log.hpp"
#include "protocol/link/backoff.hpp"
#include "protocol/link/link.hpp"
#include "protocol/link/task_group.hpp"
#include "training/blas.hpp"

namespace gleaner {

namespace {

constexpr const char* kSoftware = "gleaner-client " GLEANER_VERSION;

Result<TlsContext> make_tls(const ClientConfig& config) {
  const std::string server_name = config.server_name.empty() ? config.host : config.server_name;
  return TlsContext::make_client({.ca = config.ca, .certificate = config.certificate, .key = config.key}, server_name);
}

Result<DeviceName> own_name(const TlsContext& tls) {
  for (const auto& uri : tls.own_certificate().uris) {
    if (uri.starts_with(pki::kDeviceUrn)) return DeviceName{uri.substr(pki::kDeviceUrn.size())};
  }
  return fail(ErrorCode::bad_input, tls.files().certificate +
                                        ": the certificate names no device (urn:gleaner:device:NAME): issue one with "
                                        "`gleaner pki issue NAME`");
}

class Daemon {
 public:
  Daemon(const ClientConfig& config, TlsContext tls, DeviceName name, std::unique_ptr<StateStore> store,
         const KernelTable& kernels)
      : config_(config),
        tls_(std::move(tls)),
        name_(name),
        session_({.software = kSoftware, .cores = std::max(1U, std::thread::hardware_concurrency())}),
        backoff_(
            {.least = std::min<Duration>(config.retry_min, std::chrono::milliseconds(200)),
             .first = config.retry_min,
             .most = config.retry_max},
            Random(hash_of(name.value) ^ static_cast<std::uint64_t>(system_clock().wall_unix_ms()), Purpose::jitter)),
        worker_(
            config, name, std::move(store), kernels, [this](auto job) { asio::post(thread_, std::move(job)); },
            [this](auto job) { asio::post(io_, std::move(job)); }, [this](session::Event event) { handle(event); }) {}

  int run() {
    wait_for_signal();
    perform_all(session_.begin());
    io_.run();
    thread_.join();
    return exit_code_;
  }

 private:
  void wait_for_signal() {
    signals_.async_wait([this](const boost::system::error_code& ec, int signal) {
      if (ec) return;
      if (signal == SIGHUP) {
        reload();
        wait_for_signal();
        return;
      }
      log_info("signal {}: going down", signal);
      stop();
    });
  }

  // The connection that is open keeps its certificate; the next one shows the new.
  void reload() {
    auto made = make_tls(config_);
    const auto name = made ? own_name(*made) : fail(made.error());
    if (!name) {
      log_error("signal {}: the old certificates stay in use: {}", SIGHUP, name.error().message());
    } else if (*name != name_) {
      log_error("signal {}: the old certificates stay in use: {} is for device {}, this is {}; start the daemon again",
                SIGHUP, config_.certificate, name->value, name_.value);
    } else {
      tls_ = std::move(*made);
      log_info("signal {}: certificates are read again, for the next connection", SIGHUP);
    }
  }

  void handle(const session::Event& event) {
    if (!stopping_) perform_all(session_.handle(event, system_clock().now()));
  }

  void perform_all(std::vector<session::Action> actions) {
    for (auto& action : actions) {
      std::visit([this](auto& a) { perform(std::move(a)); }, action);
    }
  }

  void perform(session::Connect) { (void)tasks_.spawn("connection", connection()); }

  void perform(session::StartReconnectTimer action) {
    const Duration asked = action.at_least > Duration{} ? backoff_.next_after(action.at_least) : Duration{};
    // What is tried again on an open connection says nothing about the next one.
    const Duration wait = link_ ? asked : std::max(asked, backoff_.next());
    if (!link_ && action.at_least > Duration{})
      log_info("the coordinator asks to wait: the next try is in {:.0f} s", to_seconds(wait));
    reconnect_.expires_after(wait);
    reconnect_.async_wait([this](const boost::system::error_code& ec) {
      if (!ec) handle(session::ReconnectTimer{});
    });
  }

  void perform(session::Send action) {
    if (link_) send_frame(encode_frame(action.message));
  }

  void send_frame(Bytes frame) {
    if (const Status sent = link_->send(std::move(frame)); !sent) link_->close(sent.error().message());
  }

  void perform(session::SendAnswer action) {
    if (!link_) return;
    const auto& answer = action.answer;
    failpoint("client.answer.before_send");
    if (!answer.send) {
      send_frame(
          encode_frame(Skip{answer.plan, answer.samples, answer.compute_ms, answer.left, answer.right, answer.loss}));
      failpoint("client.answer.sent");
      return;
    }
    (void)tasks_.spawn("upload", upload(link_, answer));
  }

  static asio::awaitable<void> upload(std::shared_ptr<Link> link, session::Answer answer) {
    const auto& payload = *answer.payload;
    for (std::size_t offset = 0; offset == 0 || offset < payload.size();) {
      const std::size_t size = std::min<std::size_t>(kChunkBytesMax, payload.size() - offset);
      Update update{.plan = answer.plan, .digest = answer.digest, .samples = answer.samples};
      update.total_bytes = static_cast<std::uint32_t>(payload.size());
      update.offset = static_cast<std::uint32_t>(offset);
      update.compute_ms = answer.compute_ms;
      update.left = answer.left;
      update.right = answer.right;
      update.loss = answer.loss;
      update.bytes = ByteView(payload).subspan(offset, size);
      Bytes frame = encode_frame(update);
      const Status sent = co_await link->send_and_wait(std::move(frame));
      if (!sent) co_return;
      failpoint("client.answer.sent");
      offset += std::max<std::size_t>(size, 1);
    }
  }

  void perform(session::CloseConnection action) {
    // The end of the link brings the reason back, and the session says it when it is news.
    if (link_) link_->close(action.reason);
  }

  void perform(session::SetHeartbeat action) {
    heartbeat_interval_ = action.interval;
    if (!link_) return;
    link_->set_idle_timeout(std::chrono::duration_cast<std::chrono::milliseconds>(action.interval * 3));
    (void)tasks_.spawn("heartbeat", heartbeat(link_));
    backoff_.reset();
  }

  void perform(session::OpenRun action) { worker_.perform(std::move(action)); }
  void perform(session::SettlePlan action) { worker_.perform(action); }
  void perform(session::Execute action) { worker_.perform(std::move(action)); }
  void perform(session::LoadAnswer action) { worker_.perform(action); }
  void perform(session::CloseRun action) { worker_.perform(action); }

  void perform(session::Note action) {
    if (action.warning) {
      log_warn("{}", action.text);
    } else {
      log_info("{}", action.text);
    }
  }

  asio::awaitable<void> heartbeat(std::shared_ptr<Link> link) {
    asio::steady_timer timer(io_);
    while (link->is_open()) {
      timer.expires_after(heartbeat_interval_);
      const auto [ec] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
      if (ec || !link->is_open()) co_return;
      // What waits to leave is a sign of life as soon as it does.
      if (link->queued_bytes() > 0) continue;
      Bytes frame = encode_frame(Heartbeat{});
      if (const Status sent = link->send(std::move(frame)); !sent) co_return;
    }
  }

  asio::awaitable<void> connection() {
    LinkLimits limits;
    // An upload may have to wait for its turn: the coordinator says by heartbeats that it is there.
    limits.write_waits_while_heard = true;
    auto opened = co_await Link::connect(io_.get_executor(), config_.host, config_.port, tls_, limits);
    if (!opened) {
      end_on_own_fault(opened.error());
      handle(session::Disconnected{opened.error()});
      co_return;
    }
    link_ = *opened;
    log_debug("connected to {}", link_->address());
    handle(session::Connected{});
    for (;;) {
      auto frame = co_await link_->read(Sender::coordinator);
      if (!frame) {
        link_->close(frame.error().message());
        link_.reset();
        handle(session::Disconnected{frame.error()});
        co_return;
      }
      auto message = decode_body(frame->header, frame->body.view());
      if (!message) {
        link_->close(message.error().message());
        link_.reset();
        handle(session::Disconnected{message.error()});
        co_return;
      }
      const session::MessageArrived arrived{*message};
      handle(arrived);
    }
  }

  // Only errors of the own configuration end a daemon.
  void end_on_own_fault(const Error& error) {
    if (error.code() != ErrorCode::bad_input || stopping_) return;
    log_error("{}", error.message());
    exit_code_ = 2;
    stop();
  }

  void stop() {
    stopping_ = true;
    reconnect_.cancel();
    signals_.cancel();
    if (link_) link_->close("the device is going down");
    // A frame that is being written still leaves.
    last_.expires_after(std::chrono::milliseconds(200));
    last_.async_wait([this](const boost::system::error_code&) {
      tasks_.cancel();
      io_.stop();
    });
  }

  const ClientConfig& config_;
  asio::io_context io_{1};
  asio::thread_pool thread_{1};
  TlsContext tls_;
  const DeviceName name_;
  session::Session session_;
  Backoff backoff_;
  TaskGroup tasks_{io_.get_executor(), 64};
  asio::signal_set signals_{io_, SIGINT, SIGTERM, SIGHUP};
  asio::steady_timer reconnect_{io_};
  asio::steady_timer last_{io_};
  std::shared_ptr<Link> link_;
  Duration heartbeat_interval_ = std::chrono::seconds(30);
  Worker worker_;
  bool stopping_ = false;
  int exit_code_ = 0;
};

Result<int> try_run(const ClientConfig& config) {
  GLEANER_ASSIGN(const auto backend, parse_backend(config.backend));
  GLEANER_ASSIGN(const KernelTable* kernels, kernels_for(backend));
  auto made = make_tls(config);
  if (!made && made.error().code() == ErrorCode::retry) {
    // The certificate is not valid yet: most likely the clock is not set yet. That mends itself.
    log_warn("{}", made.error().message());
    while (!made && made.error().code() == ErrorCode::retry) {
      std::this_thread::sleep_for(std::chrono::seconds(10));
      made = make_tls(config);
    }
  }
  GLEANER_ASSIGN(auto tls, std::move(made));
  GLEANER_ASSIGN(auto name, own_name(tls));
  GLEANER_ASSIGN(auto store, open_file_store(config.state_directory));
  log_info("device {}, coordinator {}:{}, {} data sets", name.value, config.host, config.port, config.data.size());
  Daemon daemon(config, std::move(tls), std::move(name), std::move(store), *kernels);
  return daemon.run();
}

}  // namespace

int run_daemon(const ClientConfig& config) {
  set_blas_threads(1);
  const auto code = try_run(config);
  if (code) return *code;
  log_error("{}", code.error().message());
  return code.error().code() == ErrorCode::bad_input || code.error().code() == ErrorCode::conflict ? 2 : 1;
}

}  // namespace gleaner
