#include "coordinator/net/credit.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>

#include "common/check.hpp"

namespace gleaner {

namespace asio = boost::asio;

asio::awaitable<bool> Credit::take(std::uint64_t bytes, std::shared_ptr<const bool> alive) {
  bytes = std::min(bytes, bytes_max_);
  const auto executor = co_await asio::this_coro::executor;
  Turn turn;
  try {
    // Those who came first are served first, also when a later one would fit.
    while (!closed_ && *alive && (used_ + bytes > bytes_max_ || (!waiting_.empty() && waiting_.front() != turn))) {
      if (!turn) {
        turn = std::make_shared<asio::steady_timer>(executor);
        waiting_.push_back(turn);
      }
      turn->expires_at(asio::steady_timer::time_point::max());
      (void)co_await turn->async_wait(asio::as_tuple(asio::use_awaitable));
    }
  } catch (...) {
    leave(turn);  // cancelled, or out of memory: nobody may wait behind it
    throw;
  }
  const bool taken = !closed_ && *alive;
  if (taken) used_ += bytes;
  leave(turn);
  co_return taken;
}

bool Credit::has_room(std::uint64_t bytes) const {
  return !closed_ && waiting_.empty() && used_ + std::min(bytes, bytes_max_) <= bytes_max_;
}

void Credit::leave(const Turn& turn) {
  if (turn) std::erase(waiting_, turn);
  if (!waiting_.empty()) waiting_.front()->cancel();
}

void Credit::give(std::uint64_t bytes) {
  bytes = std::min(bytes, bytes_max_);
  GLEANER_CHECK(bytes <= used_);
  used_ -= bytes;
  if (!waiting_.empty()) waiting_.front()->cancel();
}

void Credit::wake_all() {
  for (const auto& turn : waiting_) turn->cancel();
}

void Credit::close() {
  closed_ = true;
  wake_all();
}

}  // namespace gleaner
