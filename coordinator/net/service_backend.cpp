#include "coordinator/net/service_backend.hpp"

#include <algorithm>

#include "common/log.hpp"
#include "coordinator/admin/metrics.hpp"
#include "coordinator/engine/stored_model.hpp"

namespace gleaner {

ServiceBackend::ServiceBackend(RunManager& runs, Server& server, Database& database, Executors executors)
    : runs_(runs), server_(server), database_(database), executors_(std::move(executors)) {}

template <class T, class Work>
void ServiceBackend::with_database(Work work, Done<T> done) {
  executors_.storage([this, work = std::move(work), done = std::move(done)]() mutable {
    auto result = std::make_shared<Result<T>>(work(database_));
    executors_.loop([result, done = std::move(done)] { done(std::move(*result)); });
  });
}

void ServiceBackend::audit(const std::string& actor, const std::string& action, const std::string& detail) {
  log_info("operator {}: {} {}", actor, action, detail);
  executors_.storage([this, actor, action, detail] {
    if (const Status stored = database_.audit(actor, action, detail); !stored)
      log_warn("audit: {}", stored.error().message());
  });
}

void ServiceBackend::list_runs(Done<std::vector<RunStatus>> done) { runs_.list(std::move(done)); }

void ServiceBackend::show_run(const std::string& name, std::uint32_t rounds, Done<RunDetail> done) {
  runs_.list([this, name, rounds, done = std::move(done)](Result<std::vector<RunStatus>> all) {
    if (!all) return done(fail(all.error()));
    const auto found = std::find_if(all->begin(), all->end(), [&](const RunStatus& s) { return s.row.name == name; });
    if (found == all->end()) return done(fail(ErrorCode::not_found, "no run is called " + name));
    auto work = [status = *found, rounds](Database& database) -> Result<RunDetail> {
      GLEANER_ASSIGN(auto rows, database.newest_rounds(status.row.id, rounds));
      return RunDetail{status, std::move(rows)};
    };
    with_database<RunDetail>(std::move(work), done);
  });
}

void ServiceBackend::start_run(const std::string& actor, const std::string& toml, const std::string& path,
                               Done<RunStatus> done) {
  audit(actor, "run start", path);
  runs_.start_run(toml, path, std::move(done));
}

void ServiceBackend::pause_run(const std::string& actor, const std::string& name, Done<RunStatus> done) {
  audit(actor, "run pause", name);
  runs_.pause_run(name, std::move(done));
}

void ServiceBackend::resume_run(const std::string& actor, const std::string& name, Done<RunStatus> done) {
  audit(actor, "run resume", name);
  runs_.resume_run(name, std::move(done));
}

void ServiceBackend::stop_run(const std::string& actor, const std::string& name, Done<RunStatus> done) {
  audit(actor, "run stop", name);
  runs_.stop_run(name, std::move(done));
}

void ServiceBackend::export_run(const std::string& name, Done<ExportedModel> done) {
  if (RunEngine* run = runs_.active(); run != nullptr && run->settings().spec.name == name) {
    const RunSettings settings = run->settings();
    run->copy_model(
        [settings, done = std::move(done)](std::vector<float> parameters, Version version, std::uint64_t hash) {
          auto spec = model_of(settings);
          if (!spec) return done(fail(spec.error()));
          done(ExportedModel{settings.spec.name, *spec, std::move(parameters), version, hash});
        });
    return;
  }
  // A run that is over is read from the log; it takes the storage thread for as long as its replay.
  with_database<ExportedModel>(
      [name](Database& database) -> Result<ExportedModel> {
        GLEANER_ASSIGN(auto stored, load_stored_model(database, name));
        return ExportedModel{name, stored.spec, std::move(stored.parameters), stored.version, stored.hash};
      },
      std::move(done));
}

std::vector<DeviceStatus> ServiceBackend::merge(std::vector<DeviceRow> rows) const {
  const auto connected = server_.connected();
  std::map<DeviceName, round::DeviceView> views;
  if (RunEngine* run = runs_.active()) views = run->devices();
  std::vector<DeviceStatus> all;
  for (auto& row : rows) {
    DeviceStatus status{.row = std::move(row)};
    if (const auto it = connected.find(status.row.name); it != connected.end()) {
      status.connected = !it->second.address.empty();
      status.address = it->second.address;
      status.samples = it->second.samples;
      status.flaps = it->second.flaps;
      status.quarantined = it->second.quarantined;
      status.declined = it->second.declined;
      status.row.up_bytes = it->second.up_bytes;
      status.row.down_bytes = it->second.down_bytes;
    }
    if (const auto it = views.find(status.row.name); it != views.end()) {
      status.open_plan = it->second.open_plan.value;
      status.row.uplink_bytes_per_s = it->second.profile.uplink_bytes_per_s;
      status.row.downlink_bytes_per_s = it->second.profile.downlink_bytes_per_s;
      status.row.samples_per_s = it->second.profile.samples_per_s;
    }
    all.push_back(std::move(status));
  }
  return all;
}

void ServiceBackend::list_devices(Done<std::vector<DeviceStatus>> done) {
  with_database<std::vector<DeviceRow>>([](Database& database) { return database.devices(); },
                                        [this, done = std::move(done)](Result<std::vector<DeviceRow>> rows) {
                                          if (!rows) return done(fail(rows.error()));
                                          done(merge(std::move(*rows)));
                                        });
}

// One that is known is thrown out at once, whether the disk takes it or not, and one that is not known once it is clear
// that the name is meant.
void ServiceBackend::revoke_device(const std::string& actor, const std::string& name, Database::Unseen unseen,
                                   Done<void> done) {
  audit(actor, "devices revoke", name);
  if (server_.knows({name})) unseen = Database::Unseen::add;
  if (unseen == Database::Unseen::add) server_.revoke({name}, true);
  with_database<void>([name, unseen](Database& database) { return database.revoke_device({name}, unseen); },
                      [this, name, done = std::move(done)](const Status& stored) {
                        if (stored) server_.revoke({name}, true);
                        done(stored);
                      });
}

void ServiceBackend::allow_device(const std::string& actor, const std::string& name, Done<void> done) {
  audit(actor, "devices allow", name);
  server_.revoke({name}, false);
  with_database<void>([name](Database& database) { return database.allow_device({name}); }, std::move(done));
}

void ServiceBackend::backup(const std::string& actor, const std::string& path, Done<void> done) {
  audit(actor, "db backup", path);
  with_database<void>([path](Database& database) { return database.backup(path); }, std::move(done));
}

void ServiceBackend::check_database(Done<void> done) {
  with_database<void>([](Database& database) { return database.check(); }, std::move(done));
}

void ServiceBackend::audit_log(std::uint32_t count, Done<std::vector<std::string>> done) {
  with_database<std::vector<std::string>>([count](Database& database) { return database.newest_audit(count); },
                                          std::move(done));
}

std::vector<DeviceStatus> ServiceBackend::devices_now() const {
  std::vector<DeviceRow> rows;
  for (const auto& [name, device] : server_.connected()) {
    rows.push_back({.name = name, .certificate_serial = device.serial, .revoked = server_.is_revoked(name)});
  }
  return merge(std::move(rows));
}

// known: what was read before; the totals of a run that is over are not added up again.
Result<ServiceBackend::Seen> ServiceBackend::read_seen(Database& database, const std::vector<RunStatus>& known,
                                                       RunId active) {
  GLEANER_ASSIGN(auto rows, database.runs());
  if (rows.size() > kRunsSeenMax) rows.erase(rows.begin(), rows.end() - kRunsSeenMax);
  Seen seen;
  for (const RunRow& row : rows) {
    if (row.id == active || seen.shown == RunId{} || seen.shown != active) {
      seen.shown = row.id;
      seen.shown_name = row.name;
    }
    const bool over = row.state == RunState::finished || row.state == RunState::stopped;
    const auto before = std::ranges::find_if(
        known, [&](const RunStatus& run) { return run.row.id == row.id && run.row.state == row.state; });
    if (over && before != known.end()) {
      seen.runs.push_back(*before);
      continue;
    }
    GLEANER_ASSIGN(const auto totals, database.totals(row.id));
    seen.runs.push_back(status_of_row(row, totals));
  }
  if (!rows.empty()) {
    GLEANER_ASSIGN(seen.rounds, database.newest_rounds(seen.shown, kRoundsSeenMax));
  }
  return seen;
}

void ServiceBackend::look(Done<void> done) {
  const Instant now = executors_.clock->now();
  RunEngine* run = runs_.active();
  const RunId active = run == nullptr ? RunId{} : run->settings().spec.id;
  const bool fresh = seen_ && active == seen_active_ && now - seen_at_ < std::chrono::seconds(1);
  if (seen_ && (looking_ || fresh)) return done({});
  waiting_.push_back(std::move(done));
  if (looking_) return;
  looking_ = true;
  const auto known = seen_ ? seen_->runs : std::vector<RunStatus>{};
  with_database<Seen>([known, active](Database& database) { return read_seen(database, known, active); },
                      [this, active](Result<Seen> read) {
                        looking_ = false;
                        const Status status = read ? Status() : Status(fail(read.error()));
                        if (read) {
                          seen_ = std::move(*read);
                          seen_at_ = executors_.clock->now();
                          seen_active_ = active;
                        }
                        for (const auto& waiting : std::exchange(waiting_, {})) waiting(status);
                      });
}

// The active run as it is now, the others as they were read.
std::vector<RunStatus> ServiceBackend::runs_now() const {
  std::vector<RunStatus> all = seen_ ? seen_->runs : std::vector<RunStatus>{};
  for (RunStatus& run : all) runs_.correct(run);
  if (RunEngine* run = runs_.active()) {
    const RunStatus live = run->status();
    const auto at = std::ranges::find_if(all, [&](const RunStatus& other) { return other.row.id == live.row.id; });
    if (at == all.end()) {
      all.push_back(live);
    } else {
      *at = live;
    }
  }
  return all;
}

void ServiceBackend::metrics(Done<std::string> done) {
  // A database that cannot be read leaves the live figures, and these say most.
  look([this, done = std::move(done)](const Status& looked) {
    if (!looked) log_warn("metrics without the runs of before: {}", looked.error().message());
    admin::MetricsInput input;
    input.runs = runs_now();
    if (RunEngine* run = runs_.active()) input.refusals = run->refusals();
    input.devices = devices_now();
    input.process = admin::measure_process();
    input.process.connections = server_.connections();
    input.process.inflight_bytes = server_.inflight_bytes();
    input.process.frame_bytes_up = server_.totals().frame_bytes_in;
    input.process.frame_bytes_down = server_.totals().frame_bytes_out;
    done(admin::to_prometheus(input));
  });
}

void ServiceBackend::overview(Done<Overview> done) {
  look([this, done = std::move(done)](const Status& looked) {
    if (!looked) return done(fail(looked.error()));
    done(Overview{.health = health(),
                  .runs = runs_now(),
                  .shown = seen_->shown_name,
                  .rounds = seen_->rounds,
                  .devices = devices_now()});
  });
}

Health ServiceBackend::health() {
  if (const std::string why = runs_.suspension(); !why.empty()) {
    return {.suspended = true, .reason = "suspended: " + why, .detail = why};
  }
  RunEngine* run = runs_.active();
  if (run == nullptr) return {.detail = "no active run"};
  const RunStatus status = run->status();
  return {.suspended = !status.suspension.empty(),
          .reason = status.suspension,
          .detail = fmt::format("run {}: {}, round {}, version {} of {}{}{}", status.row.name, status.phase,
                                status.round, status.row.version.value, status.rounds,
                                status.waiting_for.empty() ? "" : ", ", status.waiting_for)};
}

}  // namespace gleaner
