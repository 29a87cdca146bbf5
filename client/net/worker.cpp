#include "client/net/worker.hpp"

#include <fmt/format.h>

#include "client/engine/data.hpp"
#include "common/check.hpp"
#include "common/log.hpp"
#include "common/text.hpp"

namespace gleaner {

namespace {
constexpr std::size_t kEndedRunsKept = 4;
}

Worker::Worker(const ClientConfig& config, DeviceName name, std::unique_ptr<StateStore> store,
               const KernelTable& kernels, Post thread, Post post_loop, Deliver deliver)
    : config_(config),
      name_(std::move(name)),
      store_(std::move(store)),
      kernels_(kernels),
      thread_(std::move(thread)),
      post_loop_(std::move(post_loop)),
      deliver_(std::move(deliver)) {}

void Worker::reply(session::Event event) {
  // An event may hold large things; they move once.
  auto shared = std::make_shared<session::Event>(std::move(event));
  post_loop_([this, shared] { deliver_(std::move(*shared)); });
}

Result<std::shared_ptr<const Dataset>> Worker::samples_of(const RunSpec& spec) {
  if (loaded_ && loaded_name_ == spec.data && loaded_->classes == spec.classes) return loaded_;
  const auto binding = config_.data.find(spec.data);
  if (binding == config_.data.end()) {
    std::vector<std::string> names;
    for (const auto& [name, ignored] : config_.data) names.push_back(name);
    return fail(ErrorCode::not_found, fmt::format("no data is called {} here; this device has {}", spec.data,
                                                  names.empty() ? "none" : join_names(names)));
  }
  loaded_.reset();
  GLEANER_ASSIGN(auto samples, load_own_samples(spec.data, binding->second, spec.classes));
  log_info("data {}: {} samples of {} features", spec.data, samples.samples, samples.features);
  loaded_ = std::make_shared<const Dataset>(std::move(samples));
  loaded_name_ = spec.data;
  return loaded_;
}

session::RunOpened Worker::open(const session::OpenRun& action) {
  session::RunOpened opened{.run = action.spec.id};
  auto samples = samples_of(action.spec);
  if (!samples) {
    opened.error = samples.error();
    return opened;
  }
  run_.reset();
  run_id_ = action.spec.id;
  auto run = DeviceRun::open(
      action.spec, action.lineage,
      {.samples = *samples, .store = store_.get(), .kernels = &kernels_, .clock = &system_clock(), .name = name_});
  if (!run) {
    opened.error = run.error();
    return opened;
  }
  run_ = std::move(*run);
  if (const Status pruned = store_->prune(run_id_, kEndedRunsKept); !pruned) log_warn("{}", pruned.error().message());
  opened.samples = run_->samples();
  opened.schema_hash = run_->schema_hash();
  opened.held = run_->held();
  return opened;
}

void Worker::perform(session::OpenRun action) {
  thread_([this, action = std::move(action)] { reply(open(action)); });
}

void Worker::perform(const session::SettlePlan& action) {
  thread_([this, action] {
    if (!run_ || run_id_ != action.run) return;
    const auto zeroed = run_->state().zeroed_coordinates;
    run_->settle(action.plan, action.outcome);
    failpoint("client.settled");
    log_debug("plan {}: {}", action.plan.value, to_string(action.outcome));
    if (run_->state().zeroed_coordinates != zeroed) {
      log_warn("plan {}: {} coordinates of the refused update are dropped", action.plan.value,
               run_->state().zeroed_coordinates - zeroed);
    }
  });
}

void Worker::perform(session::Execute action) {
  auto shared = std::make_shared<session::Execute>(std::move(action));
  thread_([this, shared] {
    const auto& plan = shared->task.plan;
    if (!run_ || run_id_ != plan.run) {
      return reply(session::Executed{.run = plan.run,
                                     .plan = plan.id,
                                     .answer = {},
                                     .error = Error(ErrorCode::retry, "its run is not open here")});
    }
    auto done = run_->execute(shared->task);
    if (done.answer) {
      log_info("plan {} (round {}): {}, {} bytes, loss {:.4f}, rule {:.4g} against {:.4g}, {} ms", plan.id.value,
               plan.round, done.answer->send ? "update" : "skip",
               done.answer->payload ? done.answer->payload->size() : 0, done.answer->loss, done.answer->left,
               done.answer->right, done.answer->compute_ms);
    }
    reply(std::move(done));
  });
}

void Worker::perform(const session::LoadAnswer& action) {
  thread_([this, action] {
    session::AnswerLoaded loaded;
    if (run_ && run_id_ == action.run) loaded.answer = run_->stored_answer(action.plan);
    reply(std::move(loaded));
  });
}

void Worker::perform(const session::CloseRun& action) {
  thread_([this, action] {
    if (run_id_ != action.run) return;
    run_.reset();
    loaded_.reset();
    log_info("run {} has ended", to_hex(action.run.value));
  });
}

}  // namespace gleaner
