#include "common/clock.hpp"

#include <array>
#include <ctime>

namespace gleaner {
namespace {

class SystemClock final : public Clock {
 public:
  Instant now() const override {
    timespec t{};
    ::clock_gettime(CLOCK_BOOTTIME, &t);
    return {std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec)};
  }
  std::int64_t wall_unix_ms() const override {
    timespec t{};
    ::clock_gettime(CLOCK_REALTIME, &t);
    return std::int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000;
  }
};

}  // namespace

const Clock& system_clock() {
  static const SystemClock clock;
  return clock;
}

std::string to_iso8601(std::int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  const auto length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text.data(), length};
}

}  // namespace gleaner
