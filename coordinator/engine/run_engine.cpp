#include "coordinator/engine/run_engine.hpp"

#include "common/check.hpp"
#include "common/log.hpp"
#include "common/text.hpp"

namespace gleaner {

RunEngine::RunEngine(const RunRow& row, RunSettings settings, Needs needs)
    : row_(row), settings_(std::move(settings)), needs_(std::move(needs)) {}

void RunEngine::start() {
  log_info("run {} is active at version {} of {} (lineage {}, recipe {})", row_.name, machine_->version().value,
           settings_.rounds, to_hex(row_.lineage.value), settings_.spec.recipe);
  counted_ = needs_.outbox->socket_bytes();
  perform_all(machine_->begin(needs_.executors.clock->now()));
}

void RunEngine::stop() {
  alive_ = false;
  // The timers are the process's, and the next run must not hear of this one's.
  for (const round::Timer timer : {round::Timer::deadline, round::Timer::storage_retry, round::Timer::planning_retry}) {
    needs_.executors.stop_timer(timer);
  }
}

void RunEngine::back(Job job) {
  needs_.executors.loop([self = shared_from_this(), job = std::move(job)] {
    if (self->alive_) job();
  });
}

void RunEngine::handle(const round::Event& event) {
  perform_all(machine_->handle(event, needs_.executors.clock->now()));
}

void RunEngine::perform_all(std::vector<round::Action> actions) {
  // An action may stop this engine.
  for (auto& action : actions) {
    if (!alive_) return;
    std::visit([this](auto& a) { perform(std::move(a)); }, action);
  }
}

void RunEngine::device_accepted(const DeviceName& device, const Accept& accept) {
  round::DeviceAccepted event{.device = device,
                              .samples = accept.samples,
                              .has_model = accept.has_model,
                              .lineage = accept.lineage,
                              .version = accept.version,
                              .model_hash = accept.model_hash,
                              .pending_plan = accept.pending_plan,
                              .pending_digest = accept.pending_digest};
  const auto hash = hashes_.find(accept.version);
  event.base_hash = hash == hashes_.end() ? 0 : hash->second;
  const bool at_once = event.pending_plan.value == 0 || machine_->plan_is_open(event.pending_plan);
  // The first connection of a device that waits for nothing needs no number: most of a large population is such.
  if (!at_once || machine_->knows(device) || turns_.contains(device)) ++turns_[device];
  const std::uint64_t turn = turn_of(device);
  if (at_once) {
    handle(event);
    return;
  }
  // The log knows what became of a plan that is not open any more.
  needs_.executors.storage(
      [this, self = shared_from_this(), database = needs_.database, event, turn, run = row_.id]() mutable {
        auto stored = database->outcome_of(run, event.pending_plan);
        back([this, event, turn, stored = std::move(stored)]() mutable {
          if (!stored) return needs_.on_fatal(stored.error().within("reading the outcome of a plan"));
          // It left meanwhile, or came anew: that connection speaks for itself.
          if (turn_of(event.device) != turn) return;
          event.stored = *stored;
          handle(event);
        });
      });
}

void RunEngine::device_measured(const DeviceName& device, const DeviceRow& rates) {
  const auto profile = profile_of(device);
  if (!profile) return;
  // What this process measured itself is newer.
  const auto unless_known = [](double known, double stored) { return known > 0 ? 0.0 : stored; };
  handle(round::ProfileMeasured{
      .device = device,
      .uplink_bytes_per_s = unless_known(profile->uplink_bytes_per_s, rates.uplink_bytes_per_s),
      .downlink_bytes_per_s = unless_known(profile->downlink_bytes_per_s, rates.downlink_bytes_per_s),
      .samples_per_s = unless_known(profile->samples_per_s, rates.samples_per_s)});
}

std::optional<DeviceProfile> RunEngine::profile_of(const DeviceName& device) const {
  return machine_->profile_of(device);
}

void RunEngine::report_training(const DeviceName& device, std::uint32_t samples, std::uint32_t compute_ms) {
  if (compute_ms == 0 || samples == 0) return;
  const double trained = static_cast<double>(samples) * settings_.spec.local_epochs;
  handle(round::ProfileMeasured{.device = device, .samples_per_s = trained / (compute_ms / 1000.0)});
}

std::uint64_t RunEngine::turn_of(const DeviceName& device) const {
  const auto turn = turns_.find(device);
  return turn == turns_.end() ? 0 : turn->second;
}

void RunEngine::device_left(const DeviceName& device) {
  if (const auto turn = turns_.find(device); turn != turns_.end()) ++turn->second;
  handle(round::DeviceLeft{device});
}

void RunEngine::update_arrived(const DeviceName& device, const Update& meta, std::shared_ptr<const Bytes> payload,
                               Duration transfer) {
  const std::uint64_t bytes = payload ? payload->size() : 0;
  report_transfer(device, bytes, transfer);
  report_training(device, meta.samples, meta.compute_ms);
  if (payload && machine_->plan_is_open(meta.plan) && payload_bytes_max_of(device, meta.plan) > 0) {
    const bool first = payloads_.try_emplace(meta.plan, HeldPayload{device, std::move(payload)}).second;
    if (!first) {
      // The same plan's payload is being worked on; this one is not needed to say so.
      needs_.outbox->payload_released(bytes);
      return;
    }
    handle(round::UpdateArrived{device, meta.plan, meta.digest, meta.samples, meta.compute_ms,
                                static_cast<std::uint32_t>(bytes), meta.left, meta.right, meta.loss});
    return;
  }
  if (payload) needs_.outbox->payload_released(bytes);
  needs_.executors.storage([this, self = shared_from_this(), database = needs_.database, run = row_.id, device,
                            plan = meta.plan, digest = meta.digest] {
    auto stored = database->outcome_of(run, plan);
    back([this, device, plan, digest, stored = std::move(stored)] {
      if (!stored) return needs_.on_fatal(stored.error().within("reading the outcome of a plan"));
      const bool same = stored->has_value() && (*stored)->digest == digest;
      if (same) {
        perform(round::SendSettle{device, plan, (*stored)->outcome, false});
      } else {
        perform(round::SendRefused{device, plan, RefusalCode::stale_plan, "the plan is closed or unknown"});
      }
    });
  });
}

void RunEngine::update_refused(const DeviceName& device, PlanId plan, RefusalCode code, const std::string& detail) {
  handle(round::UpdateRefused{device, plan, code, detail});
}

void RunEngine::skip_arrived(const DeviceName& device, const Skip& skip) {
  report_training(device, skip.samples, skip.compute_ms);
  handle(round::SkipArrived{device, skip.plan, skip.samples, skip.compute_ms, skip.left, skip.right, skip.loss});
}

void RunEngine::timer_fired(round::Timer timer) { handle(round::TimerFired{timer}); }

void RunEngine::pause() {
  row_.state = RunState::paused;
  handle(round::Paused{});
}

void RunEngine::resume() {
  row_.state = RunState::active;
  handle(round::Resumed{});
}

std::uint64_t RunEngine::payload_bytes_max_of(const DeviceName& device, PlanId plan) const {
  const auto it = plan_rows_.find(plan);
  if (it == plan_rows_.end() || it->second.device != device) return 0;
  return payload_bytes_max(model_->upload_grouping(), it->second.entries_max);
}

void RunEngine::copy_model(std::function<void(std::vector<float>, Version, std::uint64_t)> done) {
  needs_.executors.compute([this, self = shared_from_this(), model = model_, done = std::move(done)] {
    const auto parameters = model->model().parameters();
    std::vector<float> copy(parameters.begin(), parameters.end());
    auto shared = std::make_shared<std::vector<float>>(std::move(copy));
    back([done, shared, version = model->model().version(), hash = model->model().hash()] {
      done(std::move(*shared), version, hash);
    });
  });
}

namespace {

// Below a few records the clock says more about scheduling than about the line.
bool says_something(std::uint64_t bytes, Duration transfer) {
  return bytes >= 64 * 1024 && transfer >= std::chrono::milliseconds(1);
}

}  // namespace

void RunEngine::download_measured(const DeviceName& device, std::uint64_t bytes, Duration transfer) {
  if (!says_something(bytes, transfer)) return;
  handle(round::ProfileMeasured{.device = device,
                                .downlink_bytes_per_s = static_cast<double>(bytes) / to_seconds(transfer)});
}

void RunEngine::report_transfer(const DeviceName& device, std::uint64_t bytes, Duration transfer) {
  if (!says_something(bytes, transfer)) return;
  handle(round::ProfileMeasured{.device = device,
                                .uplink_bytes_per_s = static_cast<double>(bytes) / to_seconds(transfer)});
}

RunStatus RunEngine::status() const {
  RunStatus status{.row = row_,
                   .recipe = settings_.spec.recipe,
                   .phase = std::string(to_string(machine_->phase())),
                   .waiting_for = machine_->waiting_for(),
                   .suspension = machine_->suspension(),
                   .round = machine_->round(),
                   .rounds = settings_.rounds,
                   .accuracy = accuracy_,
                   .loss = loss_,
                   .evaluated = evaluated_,
                   .counters = machine_->counters()};
  status.row.version = machine_->version();
  status.row.model_hash = machine_->model_hash();
  status.devices_known = static_cast<std::uint32_t>(machine_->devices_known());
  status.devices_connected = static_cast<std::uint32_t>(machine_->devices_connected());
  status.traffic = committed_traffic_;
  const SocketBytes sockets = needs_.outbox->socket_bytes();
  status.traffic.up_bytes += sockets.up_bytes - counted_.up_bytes;
  status.traffic.down_bytes += sockets.down_bytes - counted_.down_bytes;
  const std::uint64_t dense = 4ULL * settings_.spec.dimension;
  status.dense_up_bytes = dense * plans_answered_;
  status.dense_down_bytes = dense * plans_answered_;
  return status;
}

Traffic RunEngine::take_traffic() {
  Traffic traffic = std::exchange(open_traffic_, {});
  const SocketBytes sockets = needs_.outbox->socket_bytes();
  traffic.up_bytes = sockets.up_bytes - counted_.up_bytes;
  traffic.down_bytes = sockets.down_bytes - counted_.down_bytes;
  counted_ = sockets;
  return traffic;
}

}  // namespace gleaner
