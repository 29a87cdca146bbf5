#include "simulation/world/virtual_time.hpp"

#include <algorithm>
#include <utility>

#include "common/check.hpp"

namespace gleaner::simulation {

namespace {
constexpr std::int64_t kBeganUnixMs = 1'700'000'000'000;
}

std::int64_t VirtualTime::wall_unix_ms() const {
  return kBeganUnixMs + now_.since_start / std::chrono::milliseconds(1);
}

void VirtualTime::at(Instant when, Event event) {
  GLEANER_CHECK(when >= now_);
  heap_.push_back({when, asked_++, std::move(event)});
  std::ranges::push_heap(heap_, later);
}

bool VirtualTime::step() {
  if (heap_.empty()) return false;
  std::ranges::pop_heap(heap_, later);
  Entry entry = std::move(heap_.back());
  heap_.pop_back();
  now_ = entry.when;
  ++happened_;
  entry.event();
  return true;
}

void VirtualTime::clear() { std::exchange(heap_, {}).clear(); }

}  // namespace gleaner::simulation
