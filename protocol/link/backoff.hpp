#pragma once
// How long to wait before the next try: exponential with full jitter, so that devices that lost a coordinator together
// do not come back together. Pure; not thread-safe.

#include <algorithm>
#include <cstdint>

#include "common/clock.hpp"
#include "common/random.hpp"

namespace gleaner {

struct BackoffLimits {
  Duration least = std::chrono::milliseconds(200);
  Duration first = std::chrono::seconds(1);  // the first wait lies between least and this
  Duration most = std::chrono::minutes(5);
};

class Backoff {
 public:
  Backoff(BackoffLimits limits, Random random) : limits_(limits), random_(random), ceiling_(limits.first) {}

  // Uniform between least and a ceiling that doubles from try to try up to most.
  Duration next() {
    const Duration ceiling = std::clamp(ceiling_, limits_.least, limits_.most);
    ceiling_ = ceiling > limits_.most / 2 ? limits_.most : ceiling * 2;
    return limits_.least + spread(ceiling - limits_.least);
  }
  // When the far side said "come back after this": not earlier, and spread over half as much again, but never later
  // than most; what would begin there is spread over the third before it.
  Duration next_after(Duration hint) {
    const Duration from = hint < limits_.most ? std::max(hint, Duration::zero()) : limits_.most - limits_.most / 3;
    return std::max(limits_.least, from + spread(std::min(from / 2, limits_.most - from)));
  }
  void reset() { ceiling_ = limits_.first; }

 private:
  Duration spread(Duration width) {
    return Duration(static_cast<Duration::rep>(random_.uniform() * static_cast<double>(width.count())));
  }

  BackoffLimits limits_;
  Random random_;
  Duration ceiling_;
};

}  // namespace gleaner
