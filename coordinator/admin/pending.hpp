#pragma once
// Waiting in a coroutine for the answer that a backend gives to a callback. Loop thread only.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "coordinator/admin/backend.hpp"

namespace gleaner::admin {

template <class T>
class Pending {
 public:
  Pending(const boost::asio::any_io_executor& loop, Duration timeout)
      : state_(std::make_shared<State>(loop)), timeout_(timeout) {}

  // May outlive this object: an answer that comes too late is dropped.
  Done<T> done() const {
    return [state = state_](Result<T> result) {
      if (state->result) return;
      state->result.emplace(std::move(result));
      state->timer.cancel();
    };
  }

  // Errors: the backend's own; retry when it did not answer in time or the server was stopped.
  boost::asio::awaitable<Result<T>> wait() {
    if (!state_->result) {
      state_->timer.expires_after(timeout_);
      co_await state_->timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    }
    if (!state_->result) {
      state_->result.emplace(fail(ErrorCode::retry, "the coordinator did not answer in time; it may still be at it"));
    }
    co_return std::move(*state_->result);
  }

 private:
  struct State {
    explicit State(const boost::asio::any_io_executor& loop) : timer(loop) {}
    boost::asio::steady_timer timer;
    std::optional<Result<T>> result;
  };

  std::shared_ptr<State> state_;
  Duration timeout_;
};

}  // namespace gleaner::admin
