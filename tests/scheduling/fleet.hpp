#pragma once
// Devices for planner tests.

#include <fmt/format.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "scheduling/planner.hpp"

namespace gleaner {

inline DeviceProfile plain_device(std::uint32_t number) {
  DeviceProfile device;
  device.name = {fmt::format("device-{:05}", number)};
  device.samples = 600;
  return device;
}

inline std::vector<DeviceProfile> plain_fleet(std::uint32_t count) {
  std::vector<DeviceProfile> fleet;
  for (std::uint32_t i = 0; i < count; ++i) fleet.push_back(plain_device(i));
  return fleet;
}

inline PlannerSettings plain_settings() {
  PlannerSettings settings;
  settings.seed = 11;
  settings.dimension = 159'010;
  settings.deadline = from_seconds(60.0);
  return settings;
}

// Anything that a coordinator could have measured, nothing measured included.
inline std::vector<DeviceProfile> any_fleet(std::uint32_t least) {
  const auto count = least + *rc::gen::inRange(0U, 40U);
  std::vector<DeviceProfile> fleet = plain_fleet(count);
  for (DeviceProfile& device : fleet) {
    device.samples = *rc::gen::inRange(0U, 5'000U);
    device.uplink_bytes_per_s = *rc::gen::inRange(0, 200'000);
    device.downlink_bytes_per_s = *rc::gen::inRange(0, 2'000'000);
    device.samples_per_s = *rc::gen::inRange(0, 1'000);
    device.rounds_since_planned = *rc::gen::inRange(0U, 200U);
    device.failures_in_a_row = *rc::gen::inRange(0U, 12U);
    device.sync_bytes = *rc::gen::inRange<std::uint64_t>(0, 1'000'000);
  }
  return fleet;
}

inline PlannerSettings any_settings() {
  PlannerSettings settings = plain_settings();
  settings.seed = *rc::gen::arbitrary<std::uint64_t>();
  settings.cohort_size = *rc::gen::inRange(0U, 30U);
  settings.over_selection = 1.0 + *rc::gen::inRange(0, 10) / 10.0;
  settings.quorum = *rc::gen::inRange(1, 11) / 10.0;
  settings.deadline = from_seconds(*rc::gen::inRange(0, 120));
  settings.density_up = *rc::gen::inRange(1, 1'001) / 1000.0;
  settings.local_epochs = *rc::gen::inRange(1U, 6U);
  return settings;
}

}  // namespace gleaner
