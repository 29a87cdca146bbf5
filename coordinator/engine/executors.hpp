#pragma once
// How a run's work is carried out. The service gives threads, the simulator runs everything in virtual time. Each of
// the four places runs its jobs one at a time, in the order given; only `loop` may touch the machine and the outbox.

#include <functional>

#include "common/clock.hpp"
#include "coordinator/round/events.hpp"

namespace gleaner {

using Job = std::function<void()>;

struct Executors {
  std::function<void(Job)> loop;
  std::function<void(Job)> compute;     // decoding, folding, stepping: owns the model and the accumulator
  std::function<void(Job)> background;  // evaluation: slow, never in the way of a round
  std::function<void(Job)> storage;     // owns the database
  std::function<void(round::Timer, Duration)> start_timer;  // fires RunManager::timer_fired on the loop
  std::function<void(round::Timer)> stop_timer;
  const Clock* clock = nullptr;
};

}  // namespace gleaner
