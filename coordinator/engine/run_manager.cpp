#include "coordinator/engine/run_manager.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/log.hpp"
#include "common/text.hpp"
#include "protocol/messages.hpp"
#include "training/named_data.hpp"

namespace gleaner {
namespace {

constexpr Duration kStorageRetry = std::chrono::seconds(5);

bool is_over(RunState state) { return state == RunState::finished || state == RunState::stopped; }

Result<std::shared_ptr<const Dataset>> load_evaluation(const RunSettings& settings) {
  if (settings.evaluation_data.empty()) return nullptr;
  const DataSource source{.name = settings.spec.data,
                          .directory = settings.evaluation_data,
                          .format = {},
                          .classes = settings.shape.classes};
  GLEANER_ASSIGN(auto data, load_dataset(source, Split::test));
  const DatasetShape& shape = data;
  if (shape.features != settings.shape.features || shape.classes != settings.shape.classes) {
    return fail(ErrorCode::bad_input, fmt::format("{} has {} features and {} classes, the run's model wants {} and {}",
                                                  settings.evaluation_data, shape.features, shape.classes,
                                                  settings.shape.features, settings.shape.classes));
  }
  return std::make_shared<const Dataset>(std::move(data));
}

}  // namespace

RunStatus status_of_row(const RunRow& row, const RunTotals& totals) {
  RunStatus status{.row = row, .phase = std::string(to_string(row.state)), .traffic = totals.traffic};
  if (const auto settings = from_stored(row.settings)) {
    status.recipe = settings->spec.recipe;
    status.rounds = settings->rounds;
    const std::uint64_t dense = 4ULL * settings->spec.dimension * (totals.uploads + totals.skips);
    status.dense_up_bytes = dense;
    status.dense_down_bytes = dense;
  }
  status.round = row.rounds_done;
  status.devices_known = totals.devices_known;
  status.accuracy = totals.accuracy;
  status.loss = totals.loss;
  status.evaluated = totals.evaluated;
  status.counters = {.uploads = totals.uploads,
                     .late_uploads = totals.late_uploads,
                     .skips = totals.skips,
                     .refusals = totals.refusals,
                     .lapsed_plans = totals.lapsed_plans,
                     .empty_rounds = totals.empty_rounds};
  return status;
}

RunManager::RunManager(Needs needs) : needs_(std::move(needs)) {}

RunEngine::Needs RunManager::engine_needs(RunId run) {
  RunEngine::Needs needs{
      .database = needs_.database, .kernels = needs_.kernels, .outbox = needs_.outbox, .executors = needs_.executors};
  needs.on_progress = [] {};
  needs.on_finished = [this] { end_active(RunState::finished, [](auto&&) {}); };
  needs.on_lineage_change = [this](const std::string& reason) {
    // The caller still works with the engine: it only stops now, and goes in a job of its own.
    engine_->stop();
    needs_.executors.loop([this, ended = engine_, reason] {
      if (engine_ == ended) change_lineage(reason);
    });
  };
  needs.on_fatal = needs_.on_fatal;
  needs.lineage_may_change = !lineages_changed_.contains(run);
  return needs;
}

Result<RunManager::Opened> RunManager::open(RunId run) {
  GLEANER_ASSIGN(auto row, needs_.database->run(run));
  GLEANER_ASSIGN(auto settings, from_stored(row.settings));
  settings.spec.id = row.id;
  const bool is_new = row.state == RunState::waiting;
  if (is_new) row.state = RunState::active;
  auto needs = engine_needs(row.id);
  GLEANER_ASSIGN(needs.evaluation, load_evaluation(settings));
  GLEANER_ASSIGN(auto engine, RunEngine::make(row, std::move(settings), std::move(needs)));
  return Opened{row.id, is_new, std::move(engine)};
}

Status RunManager::begin() {
  GLEANER_ASSIGN(const auto rows, needs_.database->runs());
  for (const auto& row : rows) {
    if (is_over(row.state)) continue;
    GLEANER_ASSIGN(auto opened, open(row.id));
    take_over(std::move(opened));
    return {};
  }
  log_info("no run is waiting: start one with `gleaner run start FILE`");
  return {};
}

void RunManager::take_over(Opened opened) {
  engine_ = std::move(opened.engine);
  if (opened.is_new) {
    needs_.executors.storage(
        [database = needs_.database, run = opened.run, fatal = needs_.on_fatal, loop = needs_.executors.loop] {
          if (const Status status = database->set_run_state(run, RunState::active);
              !status && status.error().code() != ErrorCode::no_space) {
            loop([fatal, error = status.error()] { fatal(error); });
          }
        });
  }
  engine_->start();
  needs_.on_activated();
}

// What is asked of a run while it is being opened waits until it is.
void RunManager::when_settled(Job job) {
  if (activating_) return after_activating_.push_back(std::move(job));
  job();
}

void RunManager::activated() {
  activating_ = false;
  for (auto& job : std::exchange(after_activating_, {})) needs_.executors.loop(std::move(job));
}

void RunManager::stop() {
  stopped_ = true;
  if (engine_) engine_->stop();
}

void RunManager::activate_next() {
  if (engine_ || activating_ || stopped_) return;
  if (!unstored_.empty()) return store_ends();
  activating_ = true;
  needs_.executors.storage([this] {
    std::optional<RunId> next;
    Result<Opened> opened = fail(ErrorCode::not_found, "no run waits");
    if (auto rows = needs_.database->runs()) {
      for (const auto& row : *rows) {
        if (is_over(row.state)) continue;
        next = row.id;
        break;
      }
      if (next) opened = open(*next);
    } else {
      opened = fail(rows.error());
    }
    needs_.executors.loop([this, next, opened = std::make_shared<Result<Opened>>(std::move(opened))] {
      activated();
      if (stopped_) return;
      if (*opened) return take_over(std::move(**opened));
      if (!next) return;
      log_error("a run cannot be activated and is stopped: {}", opened->error().message());
      needs_.executors.storage([this, run = *next] {
        const Status status = needs_.database->set_run_state(run, RunState::stopped);
        needs_.executors.loop([this, status] {
          if (!status) return needs_.on_fatal(status.error());
          activate_next();
        });
      });
    });
  });
}

void RunManager::end_active(RunState state, Done done) {
  RunStatus last = engine_->status();
  const RunId run = engine_->settings().spec.id;
  const RunEnd end = {.state = state, .rest = engine_->take_traffic(), .devices_known = last.devices_known};
  engine_->stop();
  engine_.reset();
  needs_.on_ended(run);
  log_info("run {} is {} at version {} (hash {}): {} up, {} down", last.row.name, to_string(state),
           last.row.version.value, to_hex(last.row.model_hash), human_bytes(static_cast<double>(last.traffic.up_bytes)),
           human_bytes(static_cast<double>(last.traffic.down_bytes)));
  needs_.executors.storage([this, run, end, last, done = std::move(done)] {
    const Status status = needs_.database->end_run(run, end);
    needs_.executors.loop([this, status, end, last, done]() mutable {
      if (!status && status.error().code() != ErrorCode::no_space) {
        done(fail(status.error()));
        return needs_.on_fatal(status.error());
      }
      if (!status) {
        unstored_[last.row.id] = {last.row.name, end, status.error().message()};
        log_warn("{}", suspension());
        done(fail(ErrorCode::no_space, suspension()));
        return start_retry();
      }
      last.row.state = end.state;
      last.phase = to_string(end.state);
      last.waiting_for.clear();
      last.devices_connected = 0;
      done(last);
      activate_next();
    });
  });
}

void RunManager::start_retry() { needs_.executors.start_timer(round::Timer::storage_retry, kStorageRetry); }

void RunManager::timer_fired(round::Timer timer) {
  if (engine_) return engine_->timer_fired(timer);
  if (timer == round::Timer::storage_retry) store_ends();
}

void RunManager::store_ends() {
  if (unstored_.empty() || storing_ || stopped_) return;
  storing_ = true;
  needs_.executors.storage([this, ends = unstored_] {
    std::map<RunId, Status> stored;
    for (const auto& [run, unstored] : ends) stored[run] = needs_.database->end_run(run, unstored.end);
    needs_.executors.loop([this, stored = std::move(stored)] {
      storing_ = false;
      for (const auto& [run, status] : stored) {
        if (!status && status.error().code() != ErrorCode::no_space) return needs_.on_fatal(status.error());
        if (!status) {
          unstored_[run].why = status.error().message();
        } else if (const auto end = unstored_.extract(run); !end.empty()) {
          log_info("run {}: that it is {} is stored now", end.mapped().name, to_string(end.mapped().end.state));
        }
      }
      if (!unstored_.empty()) return start_retry();
      activate_next();
    });
  });
}

std::string RunManager::suspension() const {
  if (unstored_.empty()) return "";
  const Unstored& first = unstored_.begin()->second;
  return fmt::format(
      "run {} is {} and its devices are told, but that waits for room in the database, and a start of "
      "the coordinator before then goes on with the run: {}",
      first.name, to_string(first.end.state), first.why);
}

// What a run that is not over and not active waits for.
std::string RunManager::its_turn() const {
  if (!unstored_.empty()) return "its turn: " + suspension();
  if (engine_) return fmt::format("its turn behind run {}", engine_->settings().spec.name);
  return "its turn";
}

void RunManager::correct(RunStatus& status) const {
  const auto end = unstored_.find(status.row.id);
  if (end == unstored_.end()) {
    const bool is_active = engine_ && engine_->settings().spec.id == status.row.id;
    if (!is_active && !is_over(status.row.state)) status.waiting_for = its_turn();
    return;
  }
  status.phase = end->second.end.state == RunState::stopped ? "stopping" : "finishing";
  status.suspension = "suspended: " + suspension();
  status.waiting_for = status.suspension;
}

void RunManager::change_lineage(const std::string& reason) {
  log_warn("{}: a new lineage begins, devices put their open updates back and get a whole model", reason);
  const RunId run = engine_->settings().spec.id;
  engine_.reset();
  lineages_changed_.insert(run);
  activating_ = true;
  needs_.executors.storage([this, run, lineage = Lineage{needs_.random64()}] {
    Result<Opened> opened = fail(ErrorCode::fatal, "");
    if (const Status status = needs_.database->set_lineage(run, lineage); status) {
      opened = open(run);
    } else {
      opened = fail(status.error());
    }
    needs_.executors.loop([this, opened = std::make_shared<Result<Opened>>(std::move(opened))] {
      activated();
      if (stopped_) return;
      if (!*opened) return needs_.on_fatal(opened->error().within("beginning a new lineage"));
      take_over(std::move(**opened));
    });
  });
}

void RunManager::start_run(const std::string& toml, const std::string& path, Done done) {
  auto settings = parse_run_settings(toml, path);
  if (!settings) return done(fail(settings.error()));
  RunRow row{.id = {needs_.random64()}, .name = settings->spec.name, .lineage = {needs_.random64()}};
  settings->spec.id = row.id;
  if (const Status status = check_run_spec(settings->spec); !status) return done(fail(status.error().within(path)));
  row.settings = to_stored(*settings);
  row.created_unix_ms = needs_.executors.clock->wall_unix_ms();
  needs_.executors.storage([this, row, settings = std::move(*settings), done = std::move(done)] {
    // The test set is read now, so that a wrong path is the operator's to see and not the next restart's.
    Status status;
    if (auto data = load_evaluation(settings); !data) {
      status = fail(data.error());
    } else {
      status = needs_.database->create_run(row);
    }
    needs_.executors.loop([this, row, status, done] {
      if (!status) return done(fail(status.error()));
      log_info("run {} is created (id {})", row.name, to_hex(row.id.value));
      RunStatus created = status_of_row(row, {});
      if (engine_ || activating_ || !unstored_.empty()) correct(created);
      done(std::move(created));
      activate_next();
    });
  });
}

void RunManager::pause_run(const std::string& name, Done done) {
  when_settled([this, name, done = std::move(done)]() mutable {
    if (!is_active(name)) {
      return done(fail(ErrorCode::not_found, "run " + name + " is not active: only the active run can be paused"));
    }
    engine_->pause();
    store_state(RunState::paused, std::move(done));
  });
}

void RunManager::resume_run(const std::string& name, Done done) {
  when_settled([this, name, done = std::move(done)]() mutable {
    if (!is_active(name)) return done(fail(ErrorCode::not_found, "run " + name + " is not paused"));
    engine_->resume();
    store_state(RunState::active, std::move(done));
  });
}

bool RunManager::is_active(const std::string& name) const { return engine_ && engine_->settings().spec.name == name; }

void RunManager::store_state(RunState state, Done done) {
  needs_.executors.storage(
      [this, state, run = engine_->settings().spec.id, status = engine_->status(), done = std::move(done)]() mutable {
        const Status stored = needs_.database->set_run_state(run, state);
        status.row.state = state;
        needs_.executors.loop([this, stored, status, run, state, done] {
          if (stored) return done(status);
          // Half of it would be undone by the next start.
          if (engine_ && engine_->settings().spec.id == run)
            state == RunState::paused ? engine_->resume() : engine_->pause();
          done(fail(stored.error().within(fmt::format("run {} stays as it was", status.row.name))));
        });
      });
}

void RunManager::stop_run(const std::string& name, Done done) {
  when_settled([this, name, done = std::move(done)]() mutable {
    if (is_active(name)) return end_active(RunState::stopped, std::move(done));
    needs_.executors.storage([this, name, done = std::move(done)] {
      auto stopped = stop_waiting(name);
      needs_.executors.loop([stopped = std::move(stopped), done] { done(stopped); });
    });
  });
}

// Storage thread. An activation that begins later finds the run stopped.
Result<RunStatus> RunManager::stop_waiting(const std::string& name) {
  GLEANER_ASSIGN(const auto rows, needs_.database->runs());
  const auto row = std::ranges::find(rows, name, &RunRow::name);
  if (row == rows.end()) return fail(ErrorCode::not_found, "no run is called " + name);
  if (is_over(row->state)) return fail(ErrorCode::conflict, "run " + name + " is over already");
  GLEANER_TRY(needs_.database->set_run_state(row->id, RunState::stopped));
  RunRow stopped = *row;
  stopped.state = RunState::stopped;
  GLEANER_ASSIGN(const auto totals, needs_.database->totals(row->id));
  return status_of_row(stopped, totals);
}

void RunManager::list(std::function<void(Result<std::vector<RunStatus>>)> done) {
  needs_.executors.storage([this, done = std::move(done)] {
    auto all = std::make_shared<Result<std::vector<RunStatus>>>(std::vector<RunStatus>{});
    auto rows = needs_.database->runs();
    if (!rows) *all = fail(rows.error());
    for (std::size_t i = 0; rows && i < rows->size(); ++i) {
      const auto& row = (*rows)[i];
      auto totals = needs_.database->totals(row.id);
      if (!totals) {
        *all = fail(totals.error());
        break;
      }
      (*all)->push_back(status_of_row(row, *totals));
    }
    needs_.executors.loop([this, all, done] {
      for (std::size_t i = 0; *all && i < (*all)->size(); ++i) correct((**all)[i]);
      for (std::size_t i = 0; *all && engine_ && i < (*all)->size(); ++i) {
        if (auto& status = (**all)[i]; engine_->settings().spec.id == status.row.id) status = engine_->status();
      }
      done(std::move(*all));
    });
  });
}

}  // namespace gleaner
