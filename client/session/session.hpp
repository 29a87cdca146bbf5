#pragma once
// A device's side of the conversation as a state machine without I/O: messages, finished work and timers go in, actions
// come out. The daemon and the simulator drive the same code. Work actions (OpenRun, SettlePlan, Execute, ForgetModel)
// are done by one worker in the order given; each answers with the event named beside it. Single-threaded: one owner.

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/clock.hpp"
#include "common/error.hpp"
#include "protocol/messages.hpp"

namespace gleaner::session {

// What a device has of a run, as its state file says.
struct Held {
  bool has_model = false;
  Lineage lineage;
  Version version;
  std::uint64_t model_hash = 0;
  PlanId pending_plan;
  Digest pending_digest;
};

// The answer to a plan, durable before anybody hears of it. payload is empty for a skip.
struct Answer {
  RunId run;
  PlanId plan;
  bool send = false;
  Digest digest;
  std::shared_ptr<const Bytes> payload;
  std::uint32_t samples = 0;
  std::uint32_t compute_ms = 0;
  float left = 0.0F;
  float right = 0.0F;
  float loss = 0.0F;
};

// A plan with everything that leads to its base model.
struct Task {
  Plan plan;  // its views are not used
  Bytes sync;
};

// ---- Events.
struct Connected {};
struct Disconnected {
  Error error;
};
struct MessageArrived {
  const Message& message;  // views live for the call
};
struct RunOpened {
  RunId run;
  std::optional<Error> error;  // no such data, another schema: declined with this reason
  std::uint32_t samples = 0;
  std::uint64_t schema_hash = 0;
  Held held;
};
struct Executed {
  RunId run;
  PlanId plan;
  std::optional<Answer> answer;
  std::optional<Error> error;
  bool needs_model = false;  // the sync did not lead to the base: the residual is kept, a whole model is asked for
  Held held;
};
struct AnswerLoaded {  // no answer: it is not there
  std::optional<Answer> answer;
};
struct ReconnectTimer {};

using Event = std::variant<Connected, Disconnected, MessageArrived, RunOpened, Executed, AnswerLoaded, ReconnectTimer>;

// ---- Actions.
struct Connect {};
// -> ReconnectTimer; one timer, the newest start counts. The owner adds its back-off; this is the least that the
// coordinator asked for, or of what the own machine could not do.
struct StartReconnectTimer {
  Duration at_least{};
};
struct Send {
  Message message;  // without views
};
struct SendAnswer {  // as Update frames of at most kChunkBytesMax, or a Skip
  Answer answer;
};
struct CloseConnection {
  std::string reason;
};
struct SetHeartbeat {
  Duration interval{};
};
struct OpenRun {  // -> RunOpened
  RunSpec spec;
  Lineage lineage;
};
struct SettlePlan {
  RunId run;
  PlanId plan;
  Outcome outcome = Outcome::unknown;
};
struct Execute {  // -> Executed; a plan that was answered before gives the stored answer
  Task task;
};
struct LoadAnswer {  // -> AnswerLoaded
  RunId run;
  PlanId plan;
};
struct CloseRun {
  RunId run;
};
struct Note {
  std::string text;
  bool warning = false;
};

using Action = std::variant<Connect, StartReconnectTimer, Send, SendAnswer, CloseConnection, SetHeartbeat, OpenRun,
                            SettlePlan, Execute, LoadAnswer, CloseRun, Note>;

struct Identity {
  std::string software;
  std::uint32_t cores = 1;
};

class Session {
 public:
  explicit Session(Identity identity) : identity_(std::move(identity)) {}

  std::vector<Action> begin();  // once: connect
  std::vector<Action> handle(const Event& event, Instant now);

  bool connected() const { return connected_; }
  bool working() const { return executing_.has_value(); }
  // Takes part in a run and has nothing to do: what it remembers follows from the conversation so far alone.
  bool at_rest() const {
    return connected_ && welcomed_ && run_ && run_->accepted && !arriving_ && !executing_ && last_trouble_.empty() &&
           !reopens_ && last_decline_.empty();
  }

 private:
  struct Run {
    RunSpec spec;
    Lineage lineage;
    bool accepted = false;  // on this connection
  };

  void on(const Connected& e);
  void on(const Disconnected& e);
  void on(const MessageArrived& e);
  void on(const RunOpened& e);
  void on(const Executed& e);
  void on(const AnswerLoaded& e);
  void on(const ReconnectTimer& e);

  void receive(const Welcome& m);
  void receive(const Offer& m);
  void receive(const Settle& m);
  void receive(const Plan& m);
  void receive(const SyncChunk& m);
  void receive(const Received& m);
  void receive(const Refused& m);
  void receive(const Heartbeat& m);
  void receive(const Drain& m);
  void receive(const Superseded& m);
  void receive(const RunEnded& m);
  void receive(const Failure& m);
  template <class Other>
  void receive(const Other&) {
    protocol_error("a message that only devices send");
  }

  void protocol_error(const std::string& what);
  void try_again_later(const std::string& why);
  void leave(Duration retry_after, std::string reason);
  void start_when_complete();
  void accept(const Held& held);
  void act(Action action) { actions_.push_back(std::move(action)); }

  Identity identity_;
  bool connected_ = false;
  bool welcomed_ = false;
  Duration retry_at_least_{};
  std::optional<Run> run_;
  std::uint32_t samples_ = 0;
  std::uint64_t schema_hash_ = 0;
  std::optional<Task> arriving_;  // a plan whose sync is still on its way
  std::optional<PlanId> executing_;
  bool reopens_ = false;      // when the timer fires: the run is opened anew
  Duration retry_wait_{};     // of the last such wait
  PlanId whole_model_for_;    // asked for once a plan: what does not help is not asked for again at once
  std::string last_decline_;  // said once, until it changes
  std::string last_trouble_;  // said once, until it changes
  Instant now_;
  std::vector<Action> actions_;
};

}  // namespace gleaner::session
