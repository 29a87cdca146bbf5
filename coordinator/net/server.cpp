#include "coordinator/net/server.hpp"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fstream>

#include "common/log.hpp"
#include "common/text.hpp"

namespace gleaner {

namespace asio = boost::asio;

namespace {

constexpr Duration kFlapWindow = std::chrono::minutes(5);
constexpr std::size_t kFlapsMax = 10;
constexpr Duration kQuarantine = std::chrono::minutes(5);
constexpr std::uint64_t kSyncBytesMax = 32ULL << 20;
constexpr std::uint32_t kSamplesMax = 1U << 24;

}  // namespace

Result<DenyList> load_deny_list(const std::string& path) {
  DenyList list;
  if (path.empty()) return list;
  std::ifstream file(path);
  if (!file) return fail(ErrorCode::bad_input, fmt::format("cannot read the deny list {}", path));
  std::string line;
  while (std::getline(file, line)) {
    line.erase(std::find(line.begin(), line.end(), '#'), line.end());
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) line.pop_back();
    if (line.empty()) continue;
    // A line is a device name or a certificate serial: both are looked for.
    list.names.insert(line);
    list.serials.insert(line);
  }
  return list;
}

Server::Server(asio::io_context& io, const CoordinatorConfig& config, const Clock& clock, Hooks hooks)
    : io_(io),
      config_(config),
      clock_(clock),
      hooks_(std::move(hooks)),
      upload_credit_(config.inflight_bytes_max),
      sync_credit_(kSyncBytesMax),
      tasks_(io.get_executor(), std::size_t{config.connections_max} * 2 + 16) {}

Status Server::reload(const std::set<std::string>& revoked) {
  GLEANER_ASSIGN(auto tls,
                 TlsContext::make_server({.ca = config_.ca, .certificate = config_.certificate, .key = config_.key}));
  GLEANER_ASSIGN(auto list, load_deny_list(config_.deny_list));
  tls_ = std::move(tls);
  deny_list_ = std::move(list);
  revoked_ = revoked;
  for (const auto& connection : std::set(open_)) {
    if (deny_list_.contains(connection->peer()) || revoked_.contains(connection->peer().name)) {
      turn_away(connection, FailureCode::revoked, std::chrono::minutes(10), "this device may not take part any more");
    }
  }
  return {};
}

Result<std::uint16_t> Server::listen() {
  const std::size_t descriptors = raise_descriptor_limit();
  if (descriptors < std::size_t{config_.connections_max} + 64) {
    log_warn("{} open files are allowed: at most about {} devices can be connected, not the configured {} (ulimit -n)",
             descriptors, descriptors - std::min<std::size_t>(descriptors, 64), config_.connections_max);
  }
  GLEANER_ASSIGN(acceptor_, Acceptor::listen(io_.get_executor(), config_.listen.host, config_.listen.port));
  GLEANER_TRY(tasks_.spawn("acceptor", accept_all()));
  GLEANER_TRY(tasks_.spawn("certificates", check_certificates()));
  GLEANER_TRY(tasks_.spawn("heartbeats", show_life()));
  return acceptor_->endpoint().port();
}

asio::awaitable<void> Server::accept_all() {
  while (!draining_) {
    auto socket = co_await acceptor_->accept();
    if (!socket) co_return;
    if (open_connections_ >= config_.connections_max) {
      if (full_log_.note("full", "full"))
        log_warn("{} connections are open, as many as configured: new ones are closed", open_connections_);
      continue;
    }
    full_log_.forget("full");
    auto task = serve(std::move(*socket));
    (void)tasks_.spawn("connection", std::move(task));
  }
}

asio::awaitable<void> Server::serve(asio::ip::tcp::socket socket) {
  ++open_connections_;
  boost::system::error_code ec;
  const std::string host = socket.remote_endpoint(ec).address().to_string();
  LinkLimits limits;
  limits.handshake_timeout = std::chrono::duration_cast<std::chrono::milliseconds>(config_.handshake_timeout);
  limits.idle_timeout = limits.handshake_timeout;  // until the hello
  try {
    auto link = co_await Link::accept(std::move(socket), *tls_, limits, totals_);
    if (!link) {
      // Without the far side's port, which is another one each time.
      const std::string& message = link.error().message();
      const auto colon = message.find(": ");
      const std::string what = colon == std::string::npos ? message : message.substr(colon + 2);
      if (trouble_.note(host, what)) log_warn("connection from {}: {}", host, what);
    } else if ((*link)->peer().kind != PeerKind::device) {
      (*link)->close("only devices connect here");
    } else {
      trouble_.forget(host);
      auto connection = std::make_shared<DeviceConnection>(std::move(*link), *this);
      open_.insert(connection);
      co_await connection->run();
    }
  } catch (...) {
    --open_connections_;  // out of memory for one connection: its place is free again
    throw;
  }
  --open_connections_;
}

asio::awaitable<void> Server::check_certificates() {
  asio::steady_timer timer(io_);
  while (!draining_) {
    timer.expires_after(std::chrono::hours(1));
    const auto [ec] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    if (ec) co_return;
    const std::int64_t now = clock_.wall_unix_ms() / 1000;
    for (const auto& connection : std::set(open_)) {
      if (connection->peer().not_after_unix_s < now) {
        turn_away(connection, FailureCode::not_enrolled, std::chrono::minutes(10),
                  "the device's certificate has expired");
      }
    }
  }
}

// A device's own heartbeats are answered when they are read, and they are not read while it uploads or waits with an
// upload: for those this is the sign of life.
asio::awaitable<void> Server::show_life() {
  asio::steady_timer timer(io_);
  while (!draining_) {
    timer.expires_after(config_.heartbeat);
    const auto [ec] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    if (ec) co_return;
    for (const auto& connection : open_) connection->show_life();
  }
}

void Server::turn_away(const std::shared_ptr<DeviceConnection>& connection, FailureCode code, Duration retry_after,
                       const std::string& text) {
  const auto retry_ms = std::chrono::duration_cast<std::chrono::milliseconds>(retry_after).count();
  connection->send(Failure{code, static_cast<std::uint32_t>(retry_ms), text});
  connection->close(text);
}

bool Server::admit(const std::shared_ptr<DeviceConnection>& connection, const Hello& hello, Member& member) {
  const auto& peer = connection->peer();
  if (hello.version_max < kProtocolVersionMin || hello.version_min > kProtocolVersion) {
    turn_away(connection, FailureCode::version_mismatch, std::chrono::minutes(10),
              fmt::format("the device speaks protocol {} to {}, this coordinator {} to {}: update one of them",
                          hello.version_min, hello.version_max, kProtocolVersionMin, kProtocolVersion));
    return false;
  }
  if (deny_list_.contains(peer) || revoked_.contains(peer.name)) {
    turn_away(connection, FailureCode::revoked, std::chrono::minutes(10), "this device may not take part");
    return false;
  }
  if (peer.not_after_unix_s < clock_.wall_unix_ms() / 1000) {
    turn_away(connection, FailureCode::not_enrolled, std::chrono::minutes(10), "the device's certificate has expired");
    return false;
  }
  const Instant now = clock_.now();
  if (member.quarantined_until > now) {
    turn_away(connection, FailureCode::quarantined, member.quarantined_until - now,
              "too many connections in a short time");
    return false;
  }
  while (!member.arrivals.empty() && now - member.arrivals.front() > kFlapWindow) member.arrivals.pop_front();
  member.arrivals.push_back(now);
  if (member.arrivals.size() > kFlapsMax) {
    member.quarantined_until = now + kQuarantine;
    log_warn(
        "device {} connected {} times in five minutes: quarantined for five; does its certificate lie on two machines?",
        peer.name, member.arrivals.size());
    turn_away(connection, FailureCode::quarantined, kQuarantine, "too many connections in a short time");
    return false;
  }
  return true;
}

void Server::greeted(const std::shared_ptr<DeviceConnection>& connection, const Hello& hello) {
  const DeviceName name = connection->device();
  auto& member = members_[name];
  if (!admit(connection, hello, member)) return;
  if (member.connection) {
    log_warn("device {} connected again from {}: the connection from {} is superseded", name.value,
             connection->address(), member.connection->address());
    member.connection->send(Superseded{60'000});
    member.connection->superseded = true;
    member.connection->close("superseded by a newer connection");
    if (RunEngine* run = hooks_.active_run()) run->device_left(name);
  }
  member.connection = connection;
  member.takes_part = false;
  member.declined.clear();  // it may have been set right; if not, it says so to the next offer
  connection->greeted = true;
  connection->set_idle_timeout(config_.heartbeat * 3);
  log_debug("device {} connected from {} ({})", name.value, connection->address(), hello.software);
  const auto heartbeat_ms = std::chrono::duration_cast<std::chrono::milliseconds>(config_.heartbeat).count();
  connection->send(Welcome{.version = std::min(hello.version_max, kProtocolVersion),
                           .heartbeat_ms = static_cast<std::uint32_t>(heartbeat_ms),
                           .capabilities = {}});
  member.row.name = name;
  member.row.certificate_serial = connection->peer().serial;
  if (member.row.first_seen_unix_ms == 0) member.row.first_seen_unix_ms = clock_.wall_unix_ms();
  remember(member);
  if (RunEngine* run = hooks_.active_run()) connection->send(Offer{run->settings().spec, run->lineage()});
}

void Server::recall(std::vector<DeviceRow> devices) {
  for (auto& row : devices) {
    const DeviceName name = row.name;
    members_[name].row = std::move(row);
  }
}

void Server::remember(Member& member) {
  member.row.last_seen_unix_ms = clock_.wall_unix_ms();
  if (RunEngine* run = hooks_.active_run()) {
    if (const auto profile = run->profile_of(member.row.name)) {
      member.row.uplink_bytes_per_s = profile->uplink_bytes_per_s;
      member.row.downlink_bytes_per_s = profile->downlink_bytes_per_s;
      member.row.samples_per_s = profile->samples_per_s;
    }
  }
  hooks_.remember_device(member.row);
}

void Server::offer_active_run() {
  RunEngine* run = hooks_.active_run();
  if (run == nullptr) return;
  for (auto& [name, member] : members_) {
    member.takes_part = false;
    member.declined.clear();  // of another run, or lineage
  }
  send_to_all(Offer{run->settings().spec, run->lineage()});
}

void Server::accepted(DeviceConnection& connection, const Accept& accept) {
  RunEngine* run = hooks_.active_run();
  if (run == nullptr || run->settings().spec.id != accept.run) return;  // of a run that just ended
  if (accept.schema_hash != run->settings().spec.schema_hash || accept.samples > kSamplesMax) {
    turn_away(connection.shared_from_this(), FailureCode::protocol, std::chrono::minutes(5),
              accept.samples > kSamplesMax ? "more than 2^24 samples"
                                           : "the device's model has other tensors than the run's");
    return;
  }
  auto& member = members_[connection.device()];
  member.samples = accept.samples;
  // Who says it again tries a plan again that it could not answer: that it can now is not known yet.
  if (!std::exchange(member.takes_part, true)) member.declined.clear();
  run->device_accepted(connection.device(), accept);
  run->device_measured(connection.device(), member.row);
}

void Server::declined(DeviceConnection& connection, const Decline& decline) {
  members_[connection.device()].declined = decline.reason;
  if (!trouble_.note("decline " + connection.device().value, decline.reason)) return;
  log_warn("device {} does not work for run {}: {}", connection.device().value, to_hex(decline.run.value),
           decline.reason);
}

void Server::works_again(const DeviceConnection& connection) {
  auto& declined = members_[connection.device()].declined;
  if (declined.empty()) return;
  declined.clear();
  trouble_.forget("decline " + connection.device().value);
  log_info("device {} works again", connection.device().value);
}

std::uint64_t Server::payload_bytes_max(const DeviceConnection& connection, PlanId plan) {
  RunEngine* run = hooks_.active_run();
  if (run == nullptr) return 0;
  return std::min(run->payload_bytes_max_of(connection.device(), plan), config_.payload_bytes_per_device_max);
}

void Server::update(DeviceConnection& connection, const Update& meta, std::shared_ptr<const Bytes> payload,
                    Duration transfer) {
  works_again(connection);
  if (RunEngine* run = hooks_.active_run()) {
    run->update_arrived(connection.device(), meta, std::move(payload), transfer);
  } else if (payload) {
    upload_credit_.give(payload->size());
  }
}

void Server::refused(DeviceConnection& connection, PlanId plan, RefusalCode code, const std::string& detail) {
  if (RunEngine* run = hooks_.active_run()) run->update_refused(connection.device(), plan, code, detail);
}

void Server::skip(DeviceConnection& connection, const Skip& skip) {
  works_again(connection);
  if (RunEngine* run = hooks_.active_run()) run->skip_arrived(connection.device(), skip);
}

void Server::downloaded(DeviceConnection& connection, std::uint64_t bytes, Duration transfer) {
  if (RunEngine* run = hooks_.active_run()) run->download_measured(connection.device(), bytes, transfer);
}

void Server::take_counters(const DeviceConnection& connection) {
  const auto counters = connection.counters();
  if (!connection.greeted) return;
  auto& row = members_[connection.device()].row;
  row.up_bytes += counters.bytes_in;
  row.down_bytes += counters.bytes_out;
}

void Server::closed(const std::shared_ptr<DeviceConnection>& connection, const std::string& reason) {
  take_counters(*connection);
  open_.erase(connection);
  const DeviceName name = connection->device();
  const auto it = members_.find(name);
  if (it == members_.end() || it->second.connection != connection) return;
  it->second.connection.reset();
  remember(it->second);
  log_debug("device {} is gone: {}", name.value, reason);
  if (draining_) return;
  if (RunEngine* run = hooks_.active_run()) run->device_left(name);
}

SocketBytes Server::socket_bytes() const { return {.up_bytes = totals_->bytes_in, .down_bytes = totals_->bytes_out}; }

void Server::send(const DeviceName& device, const Message& message) {
  const auto it = members_.find(device);
  if (it != members_.end() && it->second.connection) it->second.connection->send(message);
}

void Server::send_plan(const DeviceName& device, const Plan& plan, std::shared_ptr<const Bytes> sync) {
  const auto it = members_.find(device);
  if (it != members_.end() && it->second.connection) it->second.connection->send_plan(plan, std::move(sync));
}

void Server::send_to_all(const Message& message) {
  for (const auto& connection : std::set(open_)) {
    if (connection->greeted && !connection->superseded) connection->send(message);
  }
}

void Server::revoke(const DeviceName& device, bool revoked) {
  if (!revoked) {
    revoked_.erase(device.value);
    return;
  }
  revoked_.insert(device.value);
  const auto it = members_.find(device);
  if (it == members_.end() || !it->second.connection) return;
  turn_away(it->second.connection, FailureCode::revoked, std::chrono::minutes(10),
            "this device may not take part any more");
}

void Server::drain(Duration retry_after) {
  draining_ = true;
  if (acceptor_) acceptor_->close();
  const auto retry_ms = std::chrono::duration_cast<std::chrono::milliseconds>(retry_after).count();
  send_to_all(Drain{static_cast<std::uint32_t>(retry_ms)});
  for (const auto& connection : std::set(open_)) connection->close("the coordinator is going down");
  upload_credit_.close();
  sync_credit_.close();
  tasks_.cancel();
}

std::map<DeviceName, ConnectedDevice> Server::connected() const {
  std::map<DeviceName, ConnectedDevice> all;
  const Instant now = clock_.now();
  for (const auto& [name, member] : members_) {
    auto& view = all[name];
    view.flaps = static_cast<std::uint32_t>(member.arrivals.empty() ? 0 : member.arrivals.size() - 1);
    view.quarantined = member.quarantined_until > now;
    view.declined = member.declined;
    view.samples = member.samples;
    view.up_bytes = member.row.up_bytes;
    view.down_bytes = member.row.down_bytes;
    if (!member.connection) continue;
    view.address = member.connection->address();
    view.serial = member.connection->peer().serial;
    view.since = member.connection->since();
    const auto counters = member.connection->counters();
    view.up_bytes += counters.bytes_in;
    view.down_bytes += counters.bytes_out;
  }
  return all;
}

}  // namespace gleaner
