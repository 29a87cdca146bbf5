#pragma once
// Time as the state machines see it: an instant is a duration since an arbitrary start that runs on through suspend
// (CLOCK_BOOTTIME), never a wall-clock time. Only durations cross the wire. Wall time is for people and certificates.

#include <chrono>
#include <cstdint>
#include <string>

namespace gleaner {

using Duration = std::chrono::nanoseconds;

struct Instant {
  Duration since_start{0};

  friend Instant operator+(Instant t, Duration d) { return {t.since_start + d}; }
  friend Duration operator-(Instant a, Instant b) { return a.since_start - b.since_start; }
  friend auto operator<=>(const Instant&, const Instant&) = default;
};

inline double to_seconds(Duration d) { return std::chrono::duration<double>(d).count(); }
inline Duration from_seconds(double s) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s));
}

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() const = 0;
  virtual std::int64_t wall_unix_ms() const = 0;  // milliseconds since 1970, for people only
};

// The machine's clock. Thread-safe; lives for the whole process.
const Clock& system_clock();

// "2026-11-30T12:34:56Z" from milliseconds since 1970.
std::string to_iso8601(std::int64_t unix_ms);

}  // namespace gleaner
