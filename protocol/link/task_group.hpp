#pragma once
// Coroutines that belong together: counted, named in the log when an exception escapes from one, ended together. The
// alternative to asio::detached, which loses exceptions.
//
// Threads: spawn, cancel and wait on the executor, which runs one handler at a time; wait_blocking and size anywhere.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>

#include "common/error.hpp"

namespace gleaner {

class TaskGroup {
 public:
  TaskGroup(boost::asio::any_io_executor executor, std::size_t tasks_max);
  ~TaskGroup();  // cancels; the tasks end on their own
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  // Starts the task. retry when tasks_max run already; conflict after cancel().
  Status spawn(std::string name, boost::asio::awaitable<void> task);

  // Cancels every task and refuses new ones. A task ends with operation_aborted at its next co_await, which is no
  // error.
  void cancel();

  boost::asio::awaitable<void> wait();  // until no task is left
  void wait_blocking();                 // the same, for a thread that does not run the executor
  std::size_t size() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace gleaner
