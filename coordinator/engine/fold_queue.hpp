#pragma once
// Updates on their way from the loop to the sum. The faster they come, the more of them are folded at once.

#include <algorithm>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "common/bytes.hpp"
#include "coordinator/round/events.hpp"

namespace gleaner {

class FoldQueue {
 public:
  struct Waiting {
    round::Fold action;
    std::shared_ptr<const Bytes> bytes;
  };

  // So many at once share most of the sum's way through the caches; more would keep their payloads' memory from the
  // next ones for longer.
  static constexpr std::size_t kAtOnce = 64;

  // From any thread.
  void put(Waiting update) {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(std::move(update));
  }
  // The oldest, kAtOnce at most.
  std::vector<Waiting> take() {
    const std::scoped_lock lock(mutex_);
    const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(kAtOnce, waiting_.size()));
    std::vector<Waiting> taken(std::move_iterator(waiting_.begin()), std::move_iterator(end));
    waiting_.erase(waiting_.begin(), end);
    return taken;
  }

 private:
  std::mutex mutex_;
  std::deque<Waiting> waiting_;
};

}  // namespace gleaner
