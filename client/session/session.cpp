#include "client/session/session.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gleaner::session {
namespace {

// The cheapest way to a model is never longer than the model itself, give or take framing.
std::uint64_t sync_bytes_max(std::uint32_t dimension) { return 4ULL * dimension + (64ULL << 10); }

// Between two tries of what the own machine could not do, as it may go on for days.
constexpr Duration kRetryFirst = std::chrono::seconds(5);
constexpr Duration kRetryMost = std::chrono::minutes(5);

}  // namespace

std::vector<Action> Session::begin() {
  act(Connect{});
  return std::exchange(actions_, {});
}

std::vector<Action> Session::handle(const Event& event, Instant now) {
  now_ = now;
  std::visit([this](const auto& e) { on(e); }, event);
  return std::exchange(actions_, {});
}

void Session::on(const Connected&) {
  connected_ = true;
  welcomed_ = false;
  retry_at_least_ = {};
  arriving_.reset();
  reopens_ = false;
  if (run_) run_->accepted = false;
  act(Send{Hello{.software = identity_.software, .capabilities = {}, .cores = identity_.cores}});
}

void Session::on(const Disconnected& e) {
  connected_ = false;
  arriving_.reset();
  if (run_) run_->accepted = false;
  if (e.error.message() != last_trouble_) {
    last_trouble_ = e.error.message();
    act(Note{last_trouble_, true});
  }
  act(StartReconnectTimer{std::exchange(retry_at_least_, {})});
}

void Session::on(const ReconnectTimer&) {
  if (!connected_) return act(Connect{});
  // What the store holds is read anew, and stated; then the coordinator sends the plan again if it still waits for it.
  if (std::exchange(reopens_, false) && run_) act(OpenRun{run_->spec, run_->lineage});
}

void Session::on(const MessageArrived& e) {
  if (!connected_) return;
  const bool before_welcome = std::holds_alternative<Welcome>(e.message) ||
                              std::holds_alternative<Failure>(e.message) || std::holds_alternative<Drain>(e.message);
  if (!welcomed_ && !before_welcome) return protocol_error("a message before the welcome");
  std::visit([this](const auto& m) { receive(m); }, e.message);
}

void Session::receive(const Welcome& m) {
  if (welcomed_) return protocol_error("a second welcome");
  if (m.version < kProtocolVersionMin || m.version > kProtocolVersion) {
    return protocol_error(fmt::format("protocol version {}; this client speaks {} to {}", m.version,
                                      kProtocolVersionMin, kProtocolVersion));
  }
  welcomed_ = true;
  if (!last_trouble_.empty()) act(Note{"connected again"});
  last_trouble_.clear();
  act(SetHeartbeat{std::chrono::milliseconds(m.heartbeat_ms)});
}

void Session::receive(const Offer& m) {
  run_ = Run{.spec = m.spec, .lineage = m.lineage};
  arriving_.reset();
  reopens_ = false;
  act(OpenRun{m.spec, m.lineage});
}

void Session::on(const RunOpened& e) {
  if (!connected_ || !run_ || run_->spec.id != e.run) return;
  if (e.error) {
    return try_again_later(e.error->message());
  }
  samples_ = e.samples;
  schema_hash_ = e.schema_hash;
  accept(e.held);
}

void Session::accept(const Held& held) {
  run_->accepted = true;
  Accept accept{.run = run_->spec.id, .samples = samples_, .schema_hash = schema_hash_};
  accept.pending_plan = held.pending_plan;
  accept.pending_digest = held.pending_digest;
  accept.has_model = held.has_model;
  if (held.has_model) {
    accept.lineage = held.lineage;
    accept.version = held.version;
    accept.model_hash = held.model_hash;
  }
  act(Send{std::move(accept)});
}

void Session::receive(const Settle& m) {
  if (!run_ || run_->spec.id != m.run) return;
  if (m.resend) {
    act(LoadAnswer{m.run, m.plan});
  } else if (m.outcome != Outcome::unknown) {
    act(SettlePlan{m.run, m.plan, m.outcome});
  }
}

void Session::on(const AnswerLoaded& e) {
  if (!connected_ || !run_ || !run_->accepted) return;
  if (e.answer) return act(SendAnswer{*e.answer});
  try_again_later("the answer that the coordinator asks for is not there any more");
}

void Session::receive(const Plan& m) {
  if (!run_ || run_->spec.id != m.run || !run_->accepted)
    return protocol_error("a plan of a run that was not accepted");
  if (executing_ == m.id) return;  // it was sent again after a reconnect; the answer is on its way
  if (m.sync_bytes > sync_bytes_max(run_->spec.dimension) || m.sync_head.size() > m.sync_bytes) {
    return protocol_error(
        fmt::format("{} bytes to bring a model of {} parameters up to date", m.sync_bytes, run_->spec.dimension));
  }
  Task task{.plan = m, .sync = Bytes(m.sync_head.begin(), m.sync_head.end())};
  task.plan.sync_head = {};
  arriving_ = std::move(task);
  start_when_complete();
}

void Session::receive(const SyncChunk& m) {
  if (!arriving_ || arriving_->plan.id != m.plan) return;  // of a plan that was given up
  auto& task = *arriving_;
  if (m.offset != task.sync.size() || m.bytes.size() > task.plan.sync_bytes - task.sync.size()) {
    return protocol_error("a chunk of a model update that does not continue the one before");
  }
  task.sync.insert(task.sync.end(), m.bytes.begin(), m.bytes.end());
  start_when_complete();
}

void Session::start_when_complete() {
  if (arriving_->sync.size() < arriving_->plan.sync_bytes) return;
  Task task = std::move(*arriving_);
  arriving_.reset();
  if (task.plan.settled_plan.value != 0)
    act(SettlePlan{task.plan.run, task.plan.settled_plan, task.plan.settled_outcome});
  executing_ = task.plan.id;
  reopens_ = false;
  act(Execute{std::move(task)});
}

void Session::on(const Executed& e) {
  if (executing_ == e.plan) executing_.reset();
  const bool here = connected_ && run_ && run_->spec.id == e.run && run_->accepted;
  const bool said_below = here && !e.answer && !e.needs_model;
  if (e.error && !said_below) act(Note{fmt::format("plan {}: {}", e.plan.value, e.error->message()), true});
  if (!here) return;  // told at the next Accept
  if (e.needs_model && whole_model_for_ != e.plan) {
    whole_model_for_ = e.plan;
    Held held = e.held;
    held.has_model = false;
    accept(held);
  } else if (e.answer) {
    retry_wait_ = {};
    last_decline_.clear();
    act(SendAnswer{*e.answer});
  } else {
    const std::string why = e.error ? e.error->message() : "the model that was sent is not the plan's base";
    try_again_later(fmt::format("plan {} is not answered yet, and is tried again: {}", e.plan.value, why));
  }
}

// The own machine could not do it (a full disk, a damaged state file, data that is not there). A plan stays open, of a
// reproducible run for ever, so it is tried until it works, on the same connection: one that comes and goes would look
// like two machines with one certificate. The coordinator hears why, as its operator may be the only one who looks.
void Session::try_again_later(const std::string& why) {
  retry_wait_ = std::clamp(retry_wait_ * 2, kRetryFirst, kRetryMost);
  reopens_ = true;
  if (why != last_decline_) act(Note{fmt::format("run {}: {}", run_->spec.name, why), true});
  last_decline_ = why;
  act(Send{Decline{run_->spec.id, why}});
  act(StartReconnectTimer{retry_wait_});
}

void Session::receive(const Refused& m) {
  act(Note{fmt::format("the coordinator refused plan {}: {}{}{}", m.plan.value, to_string(m.code),
                       m.detail.empty() ? "" : ", ", m.detail),
           true});
  if (!run_) return;
  const Outcome outcome = is_content_fault(m.code)       ? Outcome::refused
                          : m.code == RefusalCode::quota ? Outcome::quota
                                                         : Outcome::stale;
  act(SettlePlan{run_->spec.id, m.plan, outcome});
}

void Session::receive(const Received&) {}
void Session::receive(const Heartbeat&) {}

void Session::receive(const Drain& m) {
  leave(std::chrono::milliseconds(m.retry_after_ms), "the coordinator is going down");
}

void Session::receive(const Superseded& m) {
  leave(std::max<Duration>(std::chrono::milliseconds(m.retry_after_ms), std::chrono::minutes(1)),
        "another client with this device's certificate took over; is the certificate copied to two machines?");
}

void Session::receive(const RunEnded& m) {
  if (!run_ || run_->spec.id != m.run) return;
  act(CloseRun{m.run});
  run_.reset();
  arriving_.reset();
}

void Session::receive(const Failure& m) {
  leave(std::chrono::milliseconds(m.retry_after_ms), "the coordinator ended the connection: " + m.text);
}

void Session::protocol_error(const std::string& what) {
  leave(std::chrono::seconds(10), "the coordinator broke the protocol: it sent " + what);
}

void Session::leave(Duration retry_after, std::string reason) {
  retry_at_least_ = std::max(retry_at_least_, retry_after);
  act(CloseConnection{std::move(reason)});
}

}  // namespace gleaner::session
