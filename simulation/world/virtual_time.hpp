#pragma once
// Virtual time: what happens next is the earliest event, and of equal ones the one that was asked for first. Nothing
// else decides the order, so a simulation replays from its seeds. Single-threaded: one owner.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/clock.hpp"

namespace gleaner::simulation {

class VirtualTime final : public Clock {
 public:
  using Event = std::move_only_function<void()>;

  // now: of a simulation that goes on where another ended.
  explicit VirtualTime(Instant now = {}) : now_(now) {}

  Instant now() const override { return now_; }
  std::int64_t wall_unix_ms() const override;  // as if the simulation had begun at a fixed moment

  void at(Instant when, Event event);  // not before now
  void after(Duration wait, Event event) { at(now_ + wait, std::move(event)); }
  void soon(Event event) { at(now_, std::move(event)); }

  // Runs the next event, and time jumps to it. False: there is none.
  bool step();
  // Forgets every event; what they held is destroyed.
  void clear();
  std::size_t waiting() const { return heap_.size(); }
  std::uint64_t happened() const { return happened_; }

 private:
  struct Entry {
    Instant when;
    std::uint64_t order;
    Event event;
  };
  static bool later(const Entry& a, const Entry& b) { return a.when != b.when ? a.when > b.when : a.order > b.order; }

  Instant now_;
  std::uint64_t asked_ = 0;
  std::uint64_t happened_ = 0;
  std::vector<Entry> heap_;
};

}  // namespace gleaner::simulation
