#include "simulation/world/mishaps.hpp"

#include <algorithm>

namespace gleaner::simulation {

BadWorld::BadWorld(const Faults& faults, std::uint64_t seed, const VirtualTime& time)
    : faults_(faults),
      seed_(faults.seed == 0 ? seed : faults.seed),
      time_(time),
      random_(seed_, Purpose::device_model) {}

void BadWorld::restart(std::uint64_t draw) {
  // Far from the streams that devices draw from.
  random_ = Random(seed_, Purpose::device_model, draw, UINT32_MAX);
  full_until_ = {};
}

Mishaps::Death BadWorld::dies(std::uint32_t) {
  if (!happens(faults_.device_crashes)) return Death::none;
  return random_.below(2) == 0 ? Death::before_it_is_stored : Death::after_it_is_stored;
}

bool BadWorld::state_disk_is_full(std::uint32_t) { return happens(faults_.full_disks); }

bool BadWorld::disk_is_full() {
  if (time_.now() < full_until_) return true;
  if (!happens(faults_.full_disks)) return false;
  full_until_ = time_.now() + from_seconds(to_seconds(faults_.full_disk_max) * random_.uniform());
  return true;
}

BadWorld::RoundFate BadWorld::round_begins() {
  RoundFate fate;
  // At some moment of the next twenty seconds: rounds take that long, or the next one dies in this one's place.
  if (happens(faults_.coordinator_crashes)) fate.coordinator_dies_after = from_seconds(20.0 * random_.uniform());
  if (happens(faults_.network_cuts)) {
    fate.network_cut = from_seconds(to_seconds(faults_.network_cut_max) * random_.uniform());
    fate.cut_draw = random_.bits64();
  }
  return fate;
}

}  // namespace gleaner::simulation
