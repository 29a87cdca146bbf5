#include "common/check.hpp"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace gleaner {

void check_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "gleaner: broken invariant %s at %s:%d\n", condition, file, line);
  std::abort();
}

namespace {

struct Failpoint {
  std::string name;
  std::atomic<long> left{0};

  Failpoint() {
    const char* wanted = std::getenv("GLEANER_FAILPOINT");
    if (wanted == nullptr) return;
    name = wanted;
    const auto colon = name.find(':');
    left = colon == std::string::npos ? 1 : std::strtol(name.c_str() + colon + 1, nullptr, 10);
    name.resize(std::min(colon, name.size()));
  }
};

Failpoint& armed() {
  static Failpoint instance;
  return instance;
}

}  // namespace

void failpoint(const char* name) noexcept {
  Failpoint& point = armed();
  if (point.name.empty() || std::strcmp(point.name.c_str(), name) != 0) return;
  if (point.left.fetch_sub(1) == 1) std::raise(SIGKILL);
}

}  // namespace gleaner
