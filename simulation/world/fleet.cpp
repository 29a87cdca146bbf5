#include "simulation/world/fleet.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "common/check.hpp"
#include "protocol/aligned_buffer.hpp"

namespace gleaner::simulation {
namespace {

// Devices come so many at a time, this far apart: the list of what happens next stays short.
constexpr std::uint32_t kComeAtOnce = 1'000;
constexpr Duration kComeApart = std::chrono::milliseconds(10);
constexpr Duration kRebootTime = std::chrono::seconds(5);
constexpr Duration kRetryFirst = std::chrono::seconds(1);
constexpr std::uint32_t kDoublingsMax = 6;

}  // namespace

Fleet::Fleet(Needs needs, const ModelSpec& model)
    : needs_(std::move(needs)),
      jobs_{.data = needs_.data,
            .names = needs_.names,
            .kernels = needs_.kernels,
            .spec = needs_.spec,
            .lineage = needs_.lineage,
            .model = model,
            .first_model = initial_parameters(model, needs_.spec.seed)},
      identity_{.software = "gleaner-client " GLEANER_VERSION,
                .cores = std::max(1U, std::thread::hardware_concurrency())},
      joined_(needs_.count, 0) {
  GLEANER_CHECK(needs_.waves == nullptr || needs_.data->whole() != nullptr);
  StateSummary nothing;
  nothing.held.lineage = needs_.lineage;
  greeting_ = {
      .hello_bytes =
          encode_frame(Hello{.software = identity_.software, .capabilities = {}, .cores = identity_.cores}).size(),
      .welcome_bytes = encode_frame(Welcome{}).size(),
      .offer_bytes = encode_frame(Offer{needs_.spec, needs_.lineage}).size(),
      .accept_bytes = encode_frame(accept_of(nothing, 1)).size()};
}

Fleet::~Fleet() = default;

Result<StateSummary> Fleet::summary_of(std::uint32_t device) const {
  GLEANER_ASSIGN(const auto bytes, needs_.states->load(device));
  if (bytes == nullptr) {
    StateSummary summary;
    summary.held.lineage = needs_.lineage;
    return summary;
  }
  return summary_of_state(*bytes);
}

std::string Fleet::describe(std::uint32_t device) const {
  const auto it = awake_.find(device);
  if (it == awake_.end()) return joined_[device] != 0 ? "asleep" : "not running";
  const Awake& awake = *it->second;
  return fmt::format("{}{}{}", awake.session.connected() ? "awake" : "without a line",
                     awake.work                ? ", working"
                     : awake.session.working() ? ", awaits its worker"
                                               : "",
                     awake.later.empty() ? "" : fmt::format(", {} things to do", awake.later.size()));
}

void Fleet::begin() { start_some(0); }

void Fleet::start_some(std::uint32_t from) {
  const std::uint32_t to = std::min(needs_.count, from + kComeAtOnce);
  for (std::uint32_t device = from; device < to; ++device) start(device);
  if (to < needs_.count) needs_.time->after(kComeApart, [this, to] { start_some(to); });
}

// A device that cannot be reached is not even awake until it can.
void Fleet::start(std::uint32_t device) {
  const Availability now = needs_.devices->availability(device, needs_.time->now());
  if (!now.reachable) {
    if (now.until) needs_.time->at(*now.until, [this, device] { start(device); });
    return;
  }
  if (join_quickly(device, now)) return;
  auto& awake = *(awake_[device] = std::make_unique<Awake>(identity_));
  awake.life = ++lives_;
  for (auto& action : awake.session.begin()) perform(device, std::move(action));
}

// Most of a large population comes once, says what all say, and is never heard of again: where nothing can go wrong on
// the way, only the end of that conversation happens.
bool Fleet::join_quickly(std::uint32_t device, const Availability& availability) {
  const std::uint32_t samples = needs_.data->count_of(device);
  if (needs_.greets_frame_by_frame || !needs_.network->is_calm() || samples == 0 || needs_.states->has(device))
    return false;
  const Instant ends = needs_.network->greeting_ends(device, greeting_);
  if (availability.until && *availability.until <= ends) return false;
  needs_.network->greet(device, greeting_);
  needs_.time->at(ends, [this, device, samples, until = availability.until] {
    joined_[device] = 1;
    watch_availability(device, {.reachable = true, .until = until});
    StateSummary nothing;
    nothing.held.lineage = needs_.lineage;
    needs_.on_joined(device, accept_of(nothing, samples));
  });
  return true;
}

void Fleet::connect_when_reachable(std::uint32_t device) {
  const Availability now = needs_.devices->availability(device, needs_.time->now());
  if (now.reachable) return needs_.network->connect(device);
  Awake& awake = *awake_.at(device);
  if (!awake.work && awake.pending == 0) {
    awake_.erase(device);
    return start(device);
  }
  if (!now.until) return;
  needs_.time->at(*now.until, [this, device, life = awake.life] {
    const auto it = awake_.find(device);
    if (it != awake_.end() && it->second->life == life) connect_when_reachable(device);
  });
}

void Fleet::watch_availability(std::uint32_t device, const Availability& availability) {
  if (!availability.until) return;
  needs_.time->at(*availability.until, [this, device, connection = needs_.network->connection_of(device)] {
    if (!needs_.network->is_open(device) || needs_.network->connection_of(device) != connection) return;
    const Availability now = needs_.devices->availability(device, needs_.time->now());
    if (now.reachable) return watch_availability(device, now);
    hang_up(device);
    disconnected(device, "out of reach");
  });
}

void Fleet::hang_up(std::uint32_t device) {
  needs_.network->close(device);
  needs_.on_hang_up(device);
}

void Fleet::connected(std::uint32_t device) {
  watch_availability(device, needs_.devices->availability(device, needs_.time->now()));
  feed(device, session::Connected{});
}

void Fleet::disconnected(std::uint32_t device, const std::string& reason) {
  feed(device, session::Disconnected{Error(ErrorCode::retry, reason)});
}

void Fleet::arrived(std::uint32_t device, const Bytes& frame) {
  const auto header = decode_header(std::span(frame).first<FrameHeader::kBytes>(), Sender::coordinator);
  GLEANER_CHECK(header.has_value());
  const AlignedBuffer body = AlignedBuffer::copy_of(ByteView(frame).subspan(FrameHeader::kBytes));
  const auto message = decode_body(*header, body.view());
  GLEANER_CHECK(message.has_value());
  // The end of a run is nothing to wake up for.
  if (joined_[device] != 0 && std::holds_alternative<RunEnded>(*message)) return;
  feed(device, session::MessageArrived{*message});
}

Fleet::Awake& Fleet::wake(std::uint32_t device) {
  auto& slot = awake_[device];
  if (slot) return *slot;
  GLEANER_CHECK(joined_[device] != 0);
  joined_[device] = 0;
  slot = std::make_unique<Awake>(identity_);
  slot->life = ++lives_;
  auto& session = slot->session;
  const Instant now = needs_.time->now();
  const Message welcome = Welcome{};
  const Message offer = Offer{needs_.spec, needs_.lineage};
  session.begin();
  session.handle(session::Connected{}, now);
  session.handle(session::MessageArrived{welcome}, now);
  session.handle(session::MessageArrived{offer}, now);
  session::RunOpened opened{.run = needs_.spec.id};
  opened.samples = needs_.data->count_of(device);
  opened.schema_hash = needs_.spec.schema_hash;
  session.handle(opened, now);
  GLEANER_CHECK(session.at_rest());
  return *slot;
}

void Fleet::rest(std::uint32_t device) {
  const auto it = awake_.find(device);
  if (it == awake_.end()) return;
  const Awake& awake = *it->second;
  if (!awake.session.at_rest() || awake.work || !awake.later.empty() || awake.pending > 0) return;
  awake_.erase(it);
  joined_[device] = 1;
}

void Fleet::feed(std::uint32_t device, const session::Event& event) {
  Awake& awake = wake(device);
  const std::uint64_t life = awake.life;
  for (auto& action : awake.session.handle(event, needs_.time->now())) {
    perform(device, std::move(action));
    const auto it = awake_.find(device);
    if (it == awake_.end() || it->second->life != life) return;
  }
  rest(device);
}

void Fleet::tell(std::uint32_t device, session::Event event) {
  Awake& awake = *awake_.at(device);
  ++awake.pending;
  needs_.time->soon([this, device, life = awake.life, event = std::move(event)] {
    const auto it = awake_.find(device);
    if (it == awake_.end() || it->second->life != life) return;
    --it->second->pending;
    feed(device, event);
  });
}

void Fleet::perform(std::uint32_t device, session::Action action) {
  Awake& awake = *awake_.at(device);
  if (std::holds_alternative<session::Connect>(action)) {
    connect_when_reachable(device);
  } else if (const auto* timer = std::get_if<session::StartReconnectTimer>(&action)) {
    reconnect(device, timer->at_least);
  } else if (auto* out = std::get_if<session::Send>(&action)) {
    needs_.network->send_up(device, encode_frame(out->message));
  } else if (const auto* answer = std::get_if<session::SendAnswer>(&action)) {
    send_answer(device, answer->answer);
  } else if (std::holds_alternative<session::CloseConnection>(action)) {
    if (!needs_.network->is_open(device)) return;
    hang_up(device);
    tell(device, session::Disconnected{Error(ErrorCode::retry, "closed")});
  } else if (std::holds_alternative<session::SetHeartbeat>(action)) {
    awake.retries = 0;
  } else if (!std::holds_alternative<session::Note>(action)) {
    awake.later.push_back(std::move(action));
    do_work(device);
  }
}

// What the daemon's one worker does in order: while it trains, the rest waits.
void Fleet::do_work(std::uint32_t device) {
  Awake& awake = *awake_.at(device);
  while (!awake.work && !awake.later.empty()) {
    session::Action action = std::move(awake.later.front());
    awake.later.pop_front();
    if (std::holds_alternative<session::OpenRun>(action)) {
      open_run(device);
    } else if (const auto* settle = std::get_if<session::SettlePlan>(&action)) {
      unsaved_[device].push_back({settle->plan, settle->outcome});
    } else if (auto* execution = std::get_if<session::Execute>(&action)) {
      execute(device, std::move(*execution));
    } else if (const auto* load = std::get_if<session::LoadAnswer>(&action)) {
      load_answer(device, load->plan);
    }
  }
}

void Fleet::open_run(std::uint32_t device) {
  const auto summary = summary_of(device);
  if (!summary) return needs_.on_fatal(summary.error());
  session::RunOpened opened{.run = needs_.spec.id};
  opened.samples = needs_.data->count_of(device);
  opened.schema_hash = needs_.spec.schema_hash;
  opened.held = summary->held;
  // What was settled since it was stored is not pending any more.
  if (const auto known = unsaved_.find(device); known != unsaved_.end()) {
    for (const auto& settled : known->second) {
      if (settled.plan != opened.held.pending_plan || settled.outcome == Outcome::unknown) continue;
      opened.held.pending_plan = {};
      opened.held.pending_digest = {};
    }
  }
  tell(device, std::move(opened));
}

void Fleet::load_answer(std::uint32_t device, PlanId plan) {
  session::AnswerLoaded loaded;
  const auto bytes = needs_.states->load(device);
  if (!bytes) return needs_.on_fatal(bytes.error());
  if (*bytes != nullptr) {
    const auto rule = make_upload_rule(needs_.spec.upload_rule, {});
    GLEANER_CHECK(rule.has_value());
    auto state = device_state_from(**bytes, needs_.spec.id, memory_kind_of(needs_.spec, **rule), needs_.spec.dimension);
    if (!state) return needs_.on_fatal(state.error());
    const auto& known = unsaved_[device];
    const bool settled = std::ranges::any_of(known, [&](const Settled& s) { return s.plan == plan; });
    if (!settled && state->answer && state->answer->plan == plan) loaded.answer = state->answer;
  }
  tell(device, std::move(loaded));
}

void Fleet::send_answer(std::uint32_t device, const session::Answer& answer) {
  if (!answer.send) {
    const Skip skip{answer.plan, answer.samples, answer.compute_ms, answer.left, answer.right, answer.loss};
    return needs_.network->send_up(device, encode_frame(skip));
  }
  const Bytes& payload = *answer.payload;
  Update update{.plan = answer.plan,
                .digest = answer.digest,
                .samples = answer.samples,
                .total_bytes = static_cast<std::uint32_t>(payload.size())};
  update.compute_ms = answer.compute_ms;
  update.left = answer.left;
  update.right = answer.right;
  update.loss = answer.loss;
  for (std::size_t offset = 0; offset == 0 || offset < payload.size();) {
    const std::size_t size = std::min<std::size_t>(kChunkBytesMax, payload.size() - offset);
    update.offset = static_cast<std::uint32_t>(offset);
    update.bytes = ByteView(payload).subspan(offset, size);
    needs_.network->send_up(device, encode_frame(update));
    offset += std::max<std::size_t>(size, 1);
  }
}

void Fleet::reconnect(std::uint32_t device, Duration at_least) {
  Awake& awake = *awake_.at(device);
  Duration wait = at_least;
  // What is tried again on an open connection says nothing about the next one.
  if (!needs_.network->is_open(device)) {
    wait = std::max<Duration>(wait, kRetryFirst * (1ULL << std::min(awake.retries, kDoublingsMax)));
    ++awake.retries;
  }
  const std::uint64_t number = ++awake.timer;
  Random random(needs_.seed, Purpose::jitter, (number << 32) | device);
  const double stretch = 1.0 + 0.5 * random.uniform();
  needs_.time->after(from_seconds(to_seconds(wait) * stretch), [this, device, number, life = awake.life] {
    const auto it = awake_.find(device);
    if (it != awake_.end() && it->second->life == life && it->second->timer == number)
      feed(device, session::ReconnectTimer{});
  });
}

void Fleet::kill(std::uint32_t device) {
  ++crashes_;
  if (needs_.network->is_open(device)) {
    hang_up(device);
  } else {
    needs_.network->close(device);
  }
  if (const auto it = awake_.find(device); it != awake_.end()) {
    awake_.erase(it);
  } else if (joined_[device] == 0) {
    return;  // it was not running
  }
  unsaved_.erase(device);
  joined_[device] = 0;
  needs_.time->after(kRebootTime, [this, device] {
    if (!awake_.contains(device) && joined_[device] == 0) start(device);
  });
}

Accept Fleet::accept_of(const StateSummary& summary, std::uint32_t samples) const {
  Accept accept{.run = needs_.spec.id,
                .samples = samples,
                .schema_hash = needs_.spec.schema_hash,
                .has_model = summary.held.has_model};
  accept.pending_plan = summary.held.pending_plan;
  accept.pending_digest = summary.held.pending_digest;
  if (accept.has_model) {
    accept.lineage = summary.held.lineage;
    accept.version = summary.held.version;
    accept.model_hash = summary.held.model_hash;
  }
  return accept;
}

void Fleet::restart() {
  awake_.clear();
  due_.clear();
  unsaved_.clear();
  for (std::uint32_t device = 0; device < needs_.count; ++device) {
    joined_[device] = 0;
    const Availability now = needs_.devices->availability(device, needs_.time->now());
    if (!now.reachable) {
      start(device);
      continue;
    }
    const auto summary = summary_of(device);
    if (!summary) return needs_.on_fatal(summary.error());
    needs_.network->reopen(device);
    watch_availability(device, now);
    joined_[device] = 1;
    needs_.on_joined(device, accept_of(*summary, needs_.data->count_of(device)));
  }
}

}  // namespace gleaner::simulation
