#include "tests/coordinator/admin/fake_backend.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <boost/asio/post.hpp>
#include <future>

#include "common/check.hpp"
#include "common/clock.hpp"

namespace gleaner {

RunStatus sample_run(const std::string& name) {
  RunStatus run;
  run.row.id = RunId{0xabcdef0123456789};
  run.row.name = name;
  run.row.state = RunState::active;
  run.row.lineage = Lineage{7};
  run.row.version = Version{11};
  run.row.model_hash = 0xfeed;
  run.row.created_unix_ms = 1'700'000'000'000;
  run.recipe = "gsasg";
  run.phase = "collecting";
  run.waiting_for = "waiting for 3 answers";
  run.round = 12;
  run.rounds = 60;
  run.devices_connected = 8;
  run.devices_known = 10;
  run.accuracy = 0.8321;
  run.loss = 0.4567;
  run.evaluated = Version{10};
  run.counters = {.uploads = 80, .late_uploads = 2, .skips = 5, .refusals = 1, .lapsed_plans = 3, .empty_rounds = 0};
  run.traffic = {1'000'000, 2'000'000, 400'000, 300'000, 900'000, 800'000};
  run.dense_up_bytes = 50'000'000;
  run.dense_down_bytes = 60'000'000;
  return run;
}

DeviceStatus sample_device(const std::string& name, std::uint64_t bytes) {
  DeviceStatus device;
  device.row.name = DeviceName{name};
  device.row.certificate_serial = "0a1b";
  device.row.first_seen_unix_ms = 1'700'000'000'000;
  device.row.last_seen_unix_ms = 1'700'000'100'000;
  device.row.uplink_bytes_per_s = 125'000;
  device.row.downlink_bytes_per_s = 1'250'000;
  device.row.samples_per_s = 321;
  device.row.up_bytes = bytes;
  device.row.down_bytes = 2 * bytes;
  device.connected = true;
  device.address = "192.0.2.7:50312";
  device.samples = 600;
  return device;
}

ExportedModel sample_model(const std::string& model) {
  DatasetShape shape;
  shape.features = 28 * 28;
  shape.classes = 10;
  shape.height = 28;
  shape.width = 28;
  shape.channels = 1;
  ExportedModel exported;
  exported.run = "demo";
  auto spec = model_spec(model, shape);
  GLEANER_CHECK(spec.has_value());
  exported.spec = *spec;
  exported.parameters = initial_parameters(*spec, 42);
  exported.version = Version{11};
  exported.hash = 0xfeed;
  return exported;
}

template <class T>
void FakeBackend::answer(std::string call, Done<T> done, Result<T> result) {
  const std::scoped_lock lock(mutex_);
  calls_.push_back(std::move(call));
  if (error_) result = fail(*error_);
  auto give = [done = std::move(done), result = std::move(result)]() mutable { done(std::move(result)); };
  if (held_) {
    kept_.emplace_back(std::move(give));
  } else {
    give();
  }
}

void FakeBackend::list_runs(Done<std::vector<RunStatus>> done) {
  answer<std::vector<RunStatus>>("list_runs", std::move(done), std::vector{sample_run("demo"), sample_run("night")});
}

void FakeBackend::show_run(const std::string& name, std::uint32_t rounds, Done<RunDetail> done) {
  RunDetail detail{sample_run(name), {}};
  for (std::uint32_t i = 0; i < std::min(rounds, 12U); ++i) {
    RoundRow row;
    row.round = i + 1;
    row.version = Version{i + 1};
    row.contributions = 8;
    row.duration_ms = 1500;
    if (i % 2 == 0) row.accuracy = 0.5 + 0.01 * i;
    detail.rounds.push_back(row);
  }
  answer<RunDetail>(fmt::format("show_run {} {}", name, rounds), std::move(done), detail);
}

void FakeBackend::start_run(const std::string& actor, const std::string& toml, const std::string& path,
                            Done<RunStatus> done) {
  answer<RunStatus>(fmt::format("start_run {} {} {}", actor, path, toml), std::move(done), sample_run("demo"));
}

void FakeBackend::change(const std::string& call, const std::string& name, RunState state, Done<RunStatus> done) {
  RunStatus run = sample_run(name);
  run.row.state = state;
  answer<RunStatus>(call + " " + name, std::move(done), run);
}

void FakeBackend::pause_run(const std::string& actor, const std::string& name, Done<RunStatus> done) {
  change("pause_run " + actor, name, RunState::paused, std::move(done));
}

void FakeBackend::resume_run(const std::string& actor, const std::string& name, Done<RunStatus> done) {
  change("resume_run " + actor, name, RunState::active, std::move(done));
}

void FakeBackend::stop_run(const std::string& actor, const std::string& name, Done<RunStatus> done) {
  change("stop_run " + actor, name, RunState::stopped, std::move(done));
}

void FakeBackend::export_run(const std::string& name, Done<ExportedModel> done) {
  answer<ExportedModel>("export_run " + name, std::move(done), sample_model("mlp"));
}

void FakeBackend::list_devices(Done<std::vector<DeviceStatus>> done) {
  std::vector devices{sample_device("jetson-1", 1000), sample_device("jetson-2", 2000), sample_device("phone-3", 0)};
  devices[1].open_plan = 5;
  devices[2].connected = false;
  devices[2].row.revoked = true;
  answer<std::vector<DeviceStatus>>("list_devices", std::move(done), devices);
}

void FakeBackend::revoke_device(const std::string& actor, const std::string& name, Database::Unseen unseen,
                                Done<void> done) {
  const bool also_unseen = unseen == Database::Unseen::add;
  answer<void>(fmt::format("revoke {} {}{}", actor, name, also_unseen ? " unseen" : ""), std::move(done), {});
}

void FakeBackend::allow_device(const std::string& actor, const std::string& name, Done<void> done) {
  answer<void>(fmt::format("allow {} {}", actor, name), std::move(done), {});
}

void FakeBackend::backup(const std::string& actor, const std::string& path, Done<void> done) {
  answer<void>(fmt::format("backup {} {}", actor, path), std::move(done), {});
}

void FakeBackend::check_database(Done<void> done) { answer<void>("check_database", std::move(done), {}); }

void FakeBackend::audit_log(std::uint32_t count, Done<std::vector<std::string>> done) {
  answer<std::vector<std::string>>(fmt::format("audit_log {}", count), std::move(done),
                                   std::vector<std::string>{"2026-01-01T00:00:00Z alice revoke phone-3"});
}

Health FakeBackend::health() {
  const std::scoped_lock lock(mutex_);
  return {.suspended = !serving_,
          .reason = serving_ ? "" : "suspended: the disk is full",
          .detail = "run demo: collecting"};
}

void FakeBackend::metrics(Done<std::string> done) {
  answer<std::string>("metrics", std::move(done), "gleaner_fake 1\n");
}

void FakeBackend::overview(Done<Overview> done) { answer<Overview>("overview", std::move(done), sample_overview()); }

Overview sample_overview() {
  Overview seen;
  seen.health.detail = "run demo: collecting";
  seen.runs = {sample_run("night"), sample_run("demo")};
  seen.shown = "demo";
  for (std::uint32_t i = 0; i < 5; ++i) {
    RoundRow row;
    row.round = i + 1;
    if (i % 2 == 0) row.accuracy = 0.25 * i / 2;
    seen.rounds.push_back(row);
  }
  seen.devices = {sample_device("jetson-1", 1000), sample_device("phone-3", 0)};
  seen.devices[1].connected = false;
  seen.devices[1].row.revoked = true;
  return seen;
}

void FakeBackend::fail_with(std::optional<Error> error) {
  const std::scoped_lock lock(mutex_);
  error_ = std::move(error);
}

void FakeBackend::hold(bool held) {
  const std::scoped_lock lock(mutex_);
  held_ = held;
}

void FakeBackend::release() {
  std::vector<std::function<void()>> kept;
  {
    const std::scoped_lock lock(mutex_);
    kept.swap(kept_);
  }
  for (const auto& give : kept) give();
}

void FakeBackend::set_serving(bool serving) {
  const std::scoped_lock lock(mutex_);
  serving_ = serving;
}

std::vector<std::string> FakeBackend::calls() const {
  const std::scoped_lock lock(mutex_);
  return calls_;
}

std::size_t FakeBackend::held_count() const {
  const std::scoped_lock lock(mutex_);
  return kept_.size();
}

std::filesystem::path make_temporary_folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "gleaner-XXXXXX").string();
  GLEANER_CHECK(::mkdtemp(pattern.data()) != nullptr);
  return pattern;
}

OperatorPki::OperatorPki() : folder_(make_temporary_folder()) {
  for (const std::string ca : {"ca", "other"}) {
    const auto valid = pki::Validity::days(system_clock().wall_unix_ms() / 1000, 30);
    GLEANER_CHECK(pki::make_ca(ca, valid, {path(ca + ".pem"), path(ca + ".key")}).has_value());
  }
  issue("ca", pki::Role::coordinator, "coordinator");
}

OperatorPki::~OperatorPki() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void OperatorPki::issue(const std::string& ca, pki::Role role, const std::string& name) const {
  pki::CertificateRequest request{.role = role, .name = name, .addresses = {}, .validity = {}};
  request.validity = pki::Validity::days(system_clock().wall_unix_ms() / 1000, 10);
  if (role == pki::Role::coordinator) request.addresses = {"127.0.0.1", "localhost"};
  const Status issued = pki::issue_certificate({path(ca + ".pem"), path(ca + ".key")}, request,
                                               {path(name + ".pem"), path(name + ".key")});
  GLEANER_CHECK(issued.has_value());
}

TlsContext OperatorPki::server() const {
  auto context = TlsContext::make_server({path("ca.pem"), path("coordinator.pem"), path("coordinator.key")});
  GLEANER_CHECK(context.has_value());
  return std::move(*context);
}

RunningServer::RunningServer(const AdminLimits& limits, const std::optional<TlsContext>& tls)
    : folder_(make_temporary_folder()) {
  server_.emplace(loop_.get_executor(), backend_);
  AdminConfig config{.socket = socket(), .http = {"127.0.0.1", 0}, .tls = {}, .limits = limits};
  if (tls) {
    config.tls = {"127.0.0.1", 0};
    config.tls_context = [tls] { return tls; };
    config.is_denied = [this](const PeerIdentity& peer) { return peer.serial == denied_; };
  }
  const Status started = server_->start(config);
  GLEANER_CHECK(started.has_value());
  port_ = server_->http_port();
  tls_port_ = server_->tls_port();
  thread_ = std::thread([this] { loop_.run(); });
}

void RunningServer::on_loop(const std::function<void()>& job) {
  std::promise<void> done;
  boost::asio::post(loop_, [&] {
    job();
    done.set_value();
  });
  done.get_future().wait();
}

void RunningServer::deny(const std::string& serial) {
  on_loop([&] { denied_ = serial; });
}

void RunningServer::stop() {
  if (!thread_.joinable()) return;
  on_loop([this] { server_->stop(); });
  thread_.join();
}

RunningServer::~RunningServer() {
  stop();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace gleaner
