#include "protocol/link/task_group.hpp"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <condition_variable>
#include <list>
#include <mutex>

#include "common/log.hpp"

namespace gleaner {

namespace asio = boost::asio;

struct TaskGroup::State {
  struct Task {
    std::string name;
    asio::cancellation_signal signal;
  };

  State(const asio::any_io_executor& e, std::size_t max)
      : executor(e), tasks_max(max), ended(e, asio::steady_timer::time_point::max()) {}

  void finish(std::list<Task>::iterator task, const std::exception_ptr& error) {
    if (error) report(task->name, error);
    tasks.erase(task);
    {
      const std::scoped_lock lock(mutex);
      --count;
    }
    if (tasks.empty()) {
      ended.cancel();
      none_left.notify_all();
    }
  }

  void report(const std::string& name, const std::exception_ptr& error) const {
    try {
      std::rethrow_exception(error);
    } catch (const boost::system::system_error& known) {
      if (cancelled && known.code() == asio::error::operation_aborted) return;
      log_error("task {} ended with an exception: {}", name, known.what());
    } catch (const std::exception& known) {
      log_error("task {} ended with an exception: {}", name, known.what());
    } catch (...) {
      log_error("task {} ended with an unknown exception", name);
    }
  }

  asio::any_io_executor executor;
  std::size_t tasks_max;
  std::list<Task> tasks;
  bool cancelled = false;
  asio::steady_timer ended;  // never expires; cancelled when the last task ends
  mutable std::mutex mutex;
  std::condition_variable none_left;
  std::size_t count = 0;  // of tasks, under mutex
};

TaskGroup::TaskGroup(asio::any_io_executor executor, std::size_t tasks_max)
    : state_(std::make_shared<State>(executor, tasks_max)) {}

TaskGroup::~TaskGroup() { cancel(); }

Status TaskGroup::spawn(std::string name, asio::awaitable<void> task) {
  State& state = *state_;
  if (state.cancelled) return fail(ErrorCode::conflict, fmt::format("{} was not started: the group is ending", name));
  if (state.tasks.size() >= state.tasks_max) {
    return fail(ErrorCode::retry, fmt::format("{} was not started: {} tasks run already", name, state.tasks_max));
  }
  const auto at = state.tasks.emplace(state.tasks.end());
  at->name = std::move(name);
  {
    const std::scoped_lock lock(state.mutex);
    ++state.count;
  }
  const auto done = [keep = state_, at](const std::exception_ptr& error) { keep->finish(at, error); };
  asio::co_spawn(state.executor, std::move(task), asio::bind_cancellation_slot(at->signal.slot(), done));
  return {};
}

void TaskGroup::cancel() {
  state_->cancelled = true;
  // A task may end, and leave the list, while its signal is emitted.
  for (auto at = state_->tasks.begin(); at != state_->tasks.end();) {
    auto& signal = (at++)->signal;
    signal.emit(asio::cancellation_type::terminal);
  }
}

asio::awaitable<void> TaskGroup::wait() {
  const auto state = state_;
  constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);
  while (!state->tasks.empty()) co_await state->ended.async_wait(kAsTuple);
}

void TaskGroup::wait_blocking() {
  std::unique_lock lock(state_->mutex);
  state_->none_left.wait(lock, [this] { return state_->count == 0; });
}

std::size_t TaskGroup::size() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->count;
}

}  // namespace gleaner
