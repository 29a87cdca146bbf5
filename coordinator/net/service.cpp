#include "coordinator/net/service.hpp"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <map>

#include "common/check.hpp"
#include "common/log.hpp"
#include "coordinator/admin/server.hpp"
#include "coordinator/engine/run_manager.hpp"
#include "coordinator/net/server.hpp"
#include "coordinator/net/service_backend.hpp"
#include "training/blas.hpp"

namespace gleaner {

namespace asio = boost::asio;

namespace {

std::uint64_t random64() {
  std::uint64_t value = 0;
  while (::getrandom(&value, sizeof(value), 0) != sizeof(value)) {
  }
  return value == 0 ? 1 : value;
}

class Service {
 public:
  Service(const CoordinatorConfig& config, const ServiceOptions& options)
      : config_(config), options_(options), server_(io_, config_, system_clock(), server_hooks()) {}

  int run() {
    if (const Status started = start(); !started) {
      log_error("{}", started.error().message());
      finish_threads();
      return started.error().code() == ErrorCode::bad_input || started.error().code() == ErrorCode::conflict ? 2 : 1;
    }
    io_.run();
    finish_threads();
    return exit_code_;
  }

 private:
  Server::Hooks server_hooks() {
    return {.active_run = [this] { return runs_ ? runs_->active() : nullptr; },
            .remember_device = [this](const DeviceRow& row) { remember(row); }};
  }

  Status start() {
    GLEANER_ASSIGN(database_, Database::open(config_.database, Database::Access::serve));
    GLEANER_ASSIGN(const auto backend, parse_backend(config_.backend));
    GLEANER_ASSIGN(const KernelTable* kernels, kernels_for(backend));
    GLEANER_ASSIGN(auto devices, database_->devices());
    std::set<std::string> revoked;
    for (const auto& device : devices) {
      if (device.revoked) revoked.insert(device.name.value);
    }
    if (const Status loaded = server_.reload(revoked); !loaded) {
      // A device waits for its clock; here somebody reads the line, and a manager starts the service again.
      const bool early = loaded.error().code() == ErrorCode::retry;
      return fail(early ? ErrorCode::bad_input : loaded.error().code(), loaded.error().message());
    }
    server_.recall(std::move(devices));
    GLEANER_ASSIGN(const std::uint16_t port, server_.listen());

    runs_ = std::make_unique<RunManager>(
        RunManager::Needs{.database = database_.get(),
                          .kernels = kernels,
                          .outbox = &server_,
                          .executors = executors(),
                          .random64 = random64,
                          .on_activated = [this] { server_.offer_active_run(); },
                          .on_ended = [this](RunId run) { server_.send_to_all(RunEnded{run}); },
                          .on_fatal = [this](const Error& error) { die(error); }});
    backend_ = std::make_unique<ServiceBackend>(*runs_, server_, *database_, executors());
    admin_ = std::make_unique<AdminServer>(io_.get_executor(), *backend_);
    GLEANER_TRY(admin_->start({.socket = config_.admin_socket,
                               .http = config_.http,
                               .tls = config_.operators,
                               .tls_context = [this] { return server_.tls(); },
                               .is_denied = [this](const PeerIdentity& peer) { return server_.is_denied(peer.serial); },
                               .limits = {}}));
    GLEANER_TRY(runs_->begin());
    wait_for_signal();
    log_info("listening for devices on [{}]:{}, for the operator on {}", config_.listen.host, port,
             config_.admin_socket);
    tell_ready(port);
    return {};
  }

  Executors executors() {
    const auto on_pool = [](asio::thread_pool& pool) { return [&pool](Job job) { asio::post(pool, std::move(job)); }; };
    return {.loop = [this](Job job) { asio::post(io_, std::move(job)); },
            .compute = on_pool(compute_),
            .background = on_pool(background_),
            .storage = on_pool(storage_),
            .start_timer = [this](round::Timer timer, Duration after) { start_timer(timer, after); },
            .stop_timer = [this](round::Timer timer) { timers_.erase(timer); },
            .clock = &system_clock()};
  }

  void start_timer(round::Timer timer, Duration after) {
    auto& slot = timers_[timer];
    slot = std::make_unique<asio::steady_timer>(io_, after);
    slot->async_wait([this, timer](const boost::system::error_code& ec) {
      if (ec || draining_) return;
      runs_->timer_fired(timer);
    });
  }

  void remember(const DeviceRow& row) {
    asio::post(storage_, [this, row] {
      const Status stored = database_->upsert_device(row);
      if (!stored && stored.error().code() != ErrorCode::no_space) {
        asio::post(io_, [this, error = stored.error()] { die(error); });
      }
    });
  }

  void wait_for_signal() {
    signals_.async_wait([this](const boost::system::error_code& ec, int signal) {
      if (ec) return;
      if (signal == SIGHUP) {
        reload();
        wait_for_signal();
        return;
      }
      log_info("signal {}: going down; devices come back in a few seconds", signal);
      drain();
    });
  }

  void reload() {
    asio::post(storage_, [this] {
      auto devices = database_->devices();
      asio::post(io_, [this, devices = std::move(devices)] {
        std::set<std::string> names;
        for (const auto& device : devices ? *devices : std::vector<DeviceRow>{}) {
          if (device.revoked) names.insert(device.name.value);
        }
        const Status done = server_.reload(names);
        if (done) {
          log_info("certificates and the deny list are read again");
        } else {
          log_error("the old certificates stay in use: {}", done.error().message());
        }
      });
    });
  }

  void drain() {
    if (draining_) return;
    draining_ = true;
    runs_->stop();
    server_.drain(std::chrono::seconds(2));
    if (admin_) admin_->stop();
    timers_.clear();
    signals_.cancel();
    // Links say goodbye and end, and with them the loop; the timer is for those that do not.
    last_.expires_after(std::chrono::seconds(4));
    last_.async_wait([this](const boost::system::error_code& ec) {
      if (!ec) io_.stop();
    });
    wait_for_tasks();
  }

  void wait_for_tasks() {
    asio::co_spawn(io_, server_.tasks().wait(), [this](const std::exception_ptr&) { last_.cancel(); });
  }

  void die(const Error& error) {
    if (draining_) return;
    log_error("cannot go on: {}; start the coordinator again to recover", error.message());
    exit_code_ = 1;
    drain();
  }

  void finish_threads() {
    compute_.join();
    background_.join();
    storage_.join();
    runs_.reset();
    if (database_) {
      if (const Status folded = database_->checkpoint(); !folded) log_warn("{}", folded.error().message());
    }
  }

  void tell_ready(std::uint16_t port) const {
    if (options_.ready_fd < 0) return;
    const std::string line = fmt::format("{} {}\n", port, admin_->http_port());
    if (::write(options_.ready_fd, line.data(), line.size()) < 0) log_warn("nobody listens on the ready descriptor");
    ::close(options_.ready_fd);
  }

  const CoordinatorConfig config_;
  const ServiceOptions options_;
  asio::io_context io_{1};
  asio::thread_pool compute_{1};
  asio::thread_pool background_{1};
  asio::thread_pool storage_{1};
  asio::signal_set signals_{io_, SIGINT, SIGTERM, SIGHUP};
  asio::steady_timer last_{io_};
  std::unique_ptr<Database> database_;
  Server server_;
  std::unique_ptr<RunManager> runs_;
  std::unique_ptr<ServiceBackend> backend_;
  std::unique_ptr<AdminServer> admin_;
  std::map<round::Timer, std::unique_ptr<asio::steady_timer>> timers_;
  bool draining_ = false;
  int exit_code_ = 0;
};

}  // namespace

int run_service(const CoordinatorConfig& config, const ServiceOptions& options) {
  set_blas_threads(1);
  Service service(config, options);
  return service.run();
}

}  // namespace gleaner
