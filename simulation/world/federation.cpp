#include "simulation/world/federation.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/check.hpp"
#include "coordinator/engine/model_owner.hpp"

namespace gleaner::simulation {
namespace {

constexpr Duration kCoordinatorRestartTime = std::chrono::seconds(3);
constexpr Duration kComingLooked = std::chrono::milliseconds(100);
constexpr Duration kComingMax = std::chrono::minutes(1);
constexpr Duration kPatience = std::chrono::hours(24) * 366;  // without a round: nothing will come of it any more

}  // namespace

Federation::Federation(Needs needs)
    : needs_(std::move(needs)), names_(needs_.experiment->population.devices), real_began_(system_clock().now()) {}

Federation::~Federation() {
  // Events hold works and evaluations, which hold places in the pool and use what is below.
  time_.clear();
}

Status Federation::prepare() {
  const Experiment& experiment = *needs_.experiment;
  const RunSettings& run = experiment.run;
  const std::uint32_t devices = experiment.population.devices;
  const std::uint64_t seed = run.spec.seed;
  states_ = std::make_unique<DeviceStates>(needs_.folder, experiment.residual_budget_bytes);
  network_ = std::make_unique<VirtualNetwork>(VirtualNetwork::Needs{.time = &time_,
                                                                    .devices = needs_.devices,
                                                                    .ends = this,
                                                                    .count = devices,
                                                                    .seed = seed,
                                                                    .faults = experiment.faults});
  if (experiment.faults.any()) bad_world_ = std::make_unique<BadWorld>(experiment.faults, seed, time_);
  Coordinator::Needs coordinator{.time = &time_,
                                 .network = network_.get(),
                                 .names = &names_,
                                 .pool = needs_.pool,
                                 .kernels = needs_.kernels,
                                 .evaluation = needs_.evaluation,
                                 .database = path_of("run.db"),
                                 .settings = run,
                                 .devices = devices};
  if (bad_world_) {
    coordinator.disk_is_full = [this] { return bad_world_->disk_is_full(); };
  }
  coordinator.on_progress = [this] { look(); };
  coordinator.on_finished = [this] { finished_ = true; };
  coordinator.on_fatal = [this](const Error& error) { fail_with(error); };
  coordinator_ = std::make_unique<Coordinator>(std::move(coordinator));
  GLEANER_ASSIGN(const ModelSpec model, model_of(run));
  RunSpec spec = run.spec;
  spec.id = coordinator_->run();
  fleet_ = std::make_unique<Fleet>(
      Fleet::Needs{
          .time = &time_,
          .network = network_.get(),
          .devices = needs_.devices,
          .data = needs_.data,
          .names = &names_,
          .states = states_.get(),
          .pool = needs_.pool,
          .kernels = needs_.kernels,
          .mishaps = bad_world_.get(),
          .ledger = needs_.ledger,
          .ranks = needs_.ranks,
          .waves = needs_.waves,
          .seed = seed,
          .count = devices,
          .spec = spec,
          .lineage = coordinator_->lineage(),
          .on_hang_up = [this](std::uint32_t device) { coordinator_->disconnected(device); },
          .on_joined = [this](std::uint32_t device, const Accept& accept) { coordinator_->accept(device, accept); },
          .greets_frame_by_frame = needs_.greets_frame_by_frame,
          .on_fatal = [this](const Error& error) { fail_with(error); }},
      model);
  return {};
}

double Federation::real_seconds() const {
  return real_seconds_before_ + to_seconds(system_clock().now() - real_began_);
}

void Federation::connected(std::uint32_t device) {
  coordinator_->connected(device);
  fleet_->connected(device);
}

void Federation::disconnected(std::uint32_t device, const std::string& reason) {
  coordinator_->disconnected(device);
  fleet_->disconnected(device, reason);
}

void Federation::arrived_up(std::uint32_t device, const Bytes& frame, Duration sending) {
  coordinator_->arrived(device, frame, sending);
}

void Federation::arrived_down(std::uint32_t device, const Bytes& frame) { fleet_->arrived(device, frame); }

// The first round waits for everybody who can come at once, as an operator would.
void Federation::wait_for_coming(std::uint32_t expected, Instant until) {
  if (coordinator_->accepted() >= expected || time_.now() >= until) {
    coordinator_->engine().resume();
    return round_begins();
  }
  time_.after(kComingLooked, [this, expected, until] { wait_for_coming(expected, until); });
}

Status Federation::begin() {
  GLEANER_TRY(coordinator_->open());
  coordinator_->engine().pause();
  coordinator_->start();
  const std::uint32_t devices = needs_.experiment->population.devices;
  std::uint32_t expected = 0;
  for (std::uint32_t device = 0; device < devices; ++device)
    expected += needs_.devices->availability(device, time_.now()).reachable ? 1 : 0;
  fleet_->begin();
  wait_for_coming(expected, time_.now() + kComingMax + std::chrono::microseconds(20) * devices);
  return {};
}

void Federation::round_begins() {
  if (!bad_world_) return;
  const auto fate = bad_world_->round_begins();
  if (fate.network_cut) network_->split(fate.cut_draw, time_.now() + *fate.network_cut);
  if (fate.coordinator_dies_after) time_.after(*fate.coordinator_dies_after, [this] { crash_coordinator(); });
}

void Federation::crash_coordinator() {
  if (!coordinator_->is_up() || finished_) return;
  ++crashes_;
  coordinator_->crash();
  network_->set_shut(true);
  network_->lose_all();
  // As with the service, an evaluation that was under way is not made again.
  for (auto& round : waiting_) round.wants_evaluation = false;
  give_out();
  time_.after(kCoordinatorRestartTime, [this] {
    if (const Status opened = coordinator_->open(); !opened) return fail_with(opened.error());
    after_recovery();
    network_->set_shut(false);
    coordinator_->start();
  });
}

void Federation::after_recovery() {
  const RunStatus status = coordinator_->engine().status();
  version_ = status.row.version;
  counters_given_ = status.counters;
  traffic_given_ = status.traffic;
}

void Federation::look() {
  const RunStatus status = coordinator_->engine().status();
  if (status.accuracy && status.loss) evaluated_[status.evaluated.value] = {*status.accuracy, *status.loss};
  if (status.row.version > version_ || status.counters.empty_rounds > counters_given_.empty_rounds) close_round(status);
  give_out();
}

void Federation::close_round(const RunStatus& status) {
  const bool stepped = status.row.version > version_;
  ++rounds_closed_;
  version_ = status.row.version;
  last_close_ = time_.now();
  const auto gained = [](std::uint64_t now, std::uint64_t before) { return now - std::min(now, before); };
  const LineBytes& bytes = network_->bytes();
  const auto& counters = status.counters;
  RoundRecord record{
      .round = rounds_closed_, .version = version_.value, .virtual_s = virtual_seconds(), .real_s = real_seconds()};
  const auto payload = [](std::uint64_t values, std::uint64_t indices) { return values + indices; };
  record.payload_bytes_up = gained(payload(status.traffic.up_value_bytes, status.traffic.up_index_bytes),
                                   payload(traffic_given_.up_value_bytes, traffic_given_.up_index_bytes));
  record.payload_bytes_down = gained(payload(status.traffic.down_value_bytes, status.traffic.down_index_bytes),
                                     payload(traffic_given_.down_value_bytes, traffic_given_.down_index_bytes));
  record.frame_bytes_up = gained(bytes.frames_up, bytes_given_.frames_up);
  record.frame_bytes_down = gained(bytes.frames_down, bytes_given_.frames_down);
  record.socket_bytes_up = gained(bytes.sockets_up, bytes_given_.sockets_up);
  record.socket_bytes_down = gained(bytes.sockets_down, bytes_given_.sockets_down);
  const auto count = [&](std::uint64_t now, std::uint64_t before) {
    return static_cast<std::uint32_t>(gained(now, before));
  };
  record.uploads = count(counters.uploads, counters_given_.uploads);
  record.skips = count(counters.skips, counters_given_.skips);
  record.late = count(counters.late_uploads, counters_given_.late_uploads);
  record.lapsed = count(counters.lapsed_plans, counters_given_.lapsed_plans);
  record.reachable = coordinator_->accepted();
  bytes_given_ = bytes;
  counters_given_ = counters;
  traffic_given_ = status.traffic;

  const RunSettings& run = needs_.experiment->run;
  const bool last = version_.value >= run.rounds;
  const std::uint32_t every = std::max<std::uint32_t>(1, run.evaluate_every);
  const bool wants = needs_.evaluation && stepped && (last || version_.value % every == 0);
  waiting_.push_back({.record = record, .wants_evaluation = wants});
  if (!last) round_begins();
  checkpoint_due_ = !last && needs_.checkpoint_every != 0 && rounds_closed_ % needs_.checkpoint_every == 0;
}

// Rounds are told in order, each when its evaluation has come.
void Federation::give_out() {
  while (!waiting_.empty()) {
    auto& [record, wants] = waiting_.front();
    const auto known = evaluated_.find(record.version);
    const bool is_there = wants && known != evaluated_.end();
    if (wants && !is_there) return;
    if (is_there) {
      record.accuracy = known->second.first;
      record.loss = known->second.second;
    }
    evaluated_.erase(evaluated_.begin(), evaluated_.lower_bound(record.version));
    if (const Status told = needs_.on_round ? needs_.on_round(record) : Status{}; !told) return fail_with(told.error());
    rounds_told_ = record.round;
    waiting_.pop_front();
  }
}

Error Federation::stuck() const {
  return {coordinator_->is_up() ? ErrorCode::bad_input : ErrorCode::fatal, "nothing happens any more: " + open_work()};
}

// For people: what the federation waits for.
std::string Federation::open_work() const {
  if (!coordinator_->is_up()) return "the coordinator is down";
  std::string open;
  std::size_t more = 0;
  for (const auto& [name, device] : coordinator_->engine().devices()) {
    if (device.open_plan.value == 0) continue;
    if (open.size() > 200) {
      ++more;
      continue;
    }
    open += fmt::format(", {} ({}, {}, plan {})", name.value, device.connected ? "connected" : "away",
                        fleet_->describe(*names_.device_of(name)), device.open_plan.value);
  }
  const RunStatus now = status();
  return fmt::format("round {} ({}{}{}), {} of {} devices take part{}{}", now.round, now.phase,
                     now.waiting_for.empty() ? "" : ", ", now.waiting_for, coordinator_->accepted(),
                     needs_.experiment->population.devices, open, more == 0 ? "" : fmt::format(" and {} more", more));
}

Result<Federation::End> Federation::run(const std::atomic<bool>& stop) {
  last_close_ = time_.now();
  const Duration limit = needs_.experiment->time_limit;
  std::uint32_t rounds_seen = rounds_closed_;
  while (!error_ && !finished_) {
    if (!time_.step()) {
      fail_with(stuck());
      break;
    }
    if (std::exchange(checkpoint_due_, false)) {
      if (const Status done = checkpoint(); !done) fail_with(done.error());
    }
    if (limit > Duration{} && time_.now().since_start > limit) return leave(End::time_limit);
    if (time_.now() - last_close_ > kPatience) {
      fail_with(Error(ErrorCode::bad_input, "no round closed in a year of virtual time: " + open_work()));
    }
    if (rounds_closed_ != std::exchange(rounds_seen, rounds_closed_) && stop.load()) return leave(End::stopped);
  }
  if (error_) return fail(*error_);
  coordinator_->send_to_all(RunEnded{coordinator_->run()});
  return leave(End::finished);
}

Result<Federation::End> Federation::leave(End end) {
  for (auto& round : waiting_)
    round.wants_evaluation = round.wants_evaluation && evaluated_.contains(round.record.version);
  give_out();
  if (error_) return fail(*error_);
  return end;
}

}  // namespace gleaner::simulation
