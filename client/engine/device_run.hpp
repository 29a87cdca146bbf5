#pragma once
// A device's part in one run: its model, its residual, its open answer, and the work that a plan asks for. Blocking;
// one worker at a time. Everything that must survive is in the store before execute() returns an answer.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <variant>

#include "client/engine/state_store.hpp"
#include "client/session/session.hpp"
#include "common/clock.hpp"
#include "compression/device_memory.hpp"
#include "compression/upload_rule.hpp"
#include "kernels/kernels.hpp"
#include "protocol/run_spec.hpp"
#include "training/dataset.hpp"
#include "training/network.hpp"
#include "training/trainer.hpp"
#include "training/wave_trainer.hpp"

namespace gleaner {

// What is written: see device_state.cpp for the bytes.
struct DeviceState {
  bool has_model = false;
  Lineage lineage;
  Version version;
  std::uint64_t model_hash = 0;
  std::vector<float> model;
  std::optional<DeviceMemory> memory;
  std::vector<float> rule_state;  // w_hat or g_prev, empty before the first
  bool ever_sent = false;
  std::uint32_t last_sent_round = 0;
  std::uint64_t zeroed_coordinates = 0;   // content that was refused: the alarm
  std::optional<session::Answer> answer;  // the last plan's
};

Bytes to_bytes(const DeviceState& state, RunId run);
Result<DeviceState> device_state_from(ByteView bytes, RunId run, MemoryKind memory, std::uint32_t dimension);

// What a device says it holds, from its state.
session::Held held_of(const DeviceState& state);

// The same from the state's bytes, without its model and memory being read; answered: the plan whose answer is stored.
// The checksum is not looked at. corrupt: not a state, or cut short.
struct StateSummary {
  session::Held held;
  PlanId answered;
};
Result<StateSummary> summary_of_state(ByteView bytes);

// What a device keeps for such a run: a dense f32 update that is always sent leaves nothing to remember.
MemoryKind memory_kind_of(const RunSpec& spec, const UploadRule& rule);

class DeviceRun {
 public:
  struct Needs {
    std::shared_ptr<const Dataset> samples;  // this device's own
    StateStore* store = nullptr;
    const KernelTable* kernels = nullptr;
    const Clock* clock = nullptr;
    DeviceName name;
    // Memory to work in, of whoever runs many devices in turn; both outlive the run. Null: its own.
    Network* network = nullptr;
    LocalScratch* scratch = nullptr;
    // What the run begins with, of whoever has it for many devices; outlives the run. Empty: it is drawn when needed.
    std::span<const float> first_model = {};
    // What training gave, before anything of it is chosen; for those who check the books. May be empty.
    std::function<void(std::span<const float> update)> on_update = nullptr;
  };

  // Errors: the model does not fit the data (bad_input), the state file is damaged (corrupt, names what to do).
  static Result<std::unique_ptr<DeviceRun>> open(const RunSpec& spec, Lineage lineage, Needs needs);

  std::uint32_t samples() const { return needs_.samples->samples; }
  std::uint64_t schema_hash() const { return spec_.schema_hash; }
  session::Held held() const;
  const DeviceState& state() const { return state_; }

  // In memory until the next answer is stored: after a restart the outcome is asked for again.
  void settle(PlanId plan, Outcome outcome);
  session::Executed execute(const session::Task& task);

  // execute() in two, for whoever trains many devices at once in between. What prepare() gives is to be trained, unless
  // the plan is answered without; the views stay valid until finish().
  struct Training {
    std::span<const float> parameters;
    LocalWork work;
    Turn turn;
  };
  std::variant<session::Executed, Training> prepare(const session::Task& task);
  // Where the update is added to the residual and the largest are sent, nothing else: that may be done while the update
  // is still where it was trained.
  std::optional<FusedSelection> fused_selection(const session::Task& task);
  // selected: by what fused_selection() gave; null: nobody has.
  session::Executed finish(const session::Task& task, const Result<LocalResult>& trained,
                           const Selection* selected = nullptr);
  std::optional<session::Answer> stored_answer(PlanId plan) const;

 private:
  DeviceRun(const RunSpec& spec, Lineage lineage, Needs needs, const ModelSpec& model);
  Status load();
  // True when the model is the plan's base now.
  Result<bool> catch_up(const session::Task& task);
  // Null trained: there was nothing to train on.
  session::Executed end(const session::Task& task, const Result<LocalResult>* trained, const Selection* selected);
  // trouble: what kept the device from training although it answers.
  Result<session::Answer> answer_with(const session::Task& task, const Result<LocalResult>* trained,
                                      const Selection* selected, std::optional<Error>& trouble);
  Status compress(const session::Task& task, std::span<const float> update, const Selection* selected,
                  session::Answer& answer);
  Turn turn_of(const session::Task& task) const;
  Result<Decision> decide(const session::Task& task, std::span<const float> update, double candidate_squared_norm);
  Status put_in_flight(const Selection& selection, session::Answer& answer);
  session::Answer skip_answer(const session::Task& task) const;

  RunSpec spec_;
  Lineage lineage_;
  Needs needs_;
  ModelSpec model_spec_;
  std::unique_ptr<Network> own_network_;
  std::unique_ptr<LocalScratch> own_scratch_;
  Network& network_;
  LocalScratch& scratch_;
  Grouping tensors_;
  Grouping upload_grouping_;
  std::vector<std::uint32_t> all_samples_;
  std::unique_ptr<Compressor> compressor_;
  std::unique_ptr<UploadRule> rule_;
  ValueFormat value_format_ = ValueFormat::f32;
  MemoryKind memory_kind_ = MemoryKind::residual;
  DeviceState state_;
  Instant began_;  // the work of the plan that is worked on
};

}  // namespace gleaner
