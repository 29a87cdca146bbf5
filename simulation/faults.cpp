#include <fmt/format.h>

#include <array>

#include "common/text.hpp"
#include "simulation/experiment.hpp"

namespace gleaner::simulation {
namespace {

struct Level {
  std::string_view name;
  Faults faults;
};

// light: a bad network; heavy: everything goes wrong, several times in a run of twenty rounds with ten devices.
constexpr std::array<Level, 3> kLevels = {{{"none", {}},
                                           {"light",
                                            {.drops = 0.005,
                                             .delays = 0.02,
                                             .duplicates = 0.005,
                                             .reorders = 0.005,
                                             .device_crashes = 0.01,
                                             .network_cuts = 0.01,
                                             .slow_readers = 0.05}},
                                           {"heavy",
                                            {.drops = 0.02,
                                             .delays = 0.1,
                                             .duplicates = 0.02,
                                             .reorders = 0.02,
                                             .device_crashes = 0.05,
                                             .coordinator_crashes = 0.1,
                                             .full_disks = 0.02,
                                             .network_cuts = 0.1,
                                             .slow_readers = 0.1}}}};

}  // namespace

bool Faults::any() const {
  return drops + delays + duplicates + reorders + device_crashes + coordinator_crashes + full_disks + network_cuts +
             slow_readers >
         0.0;
}

Result<Faults> faults_of_level(std::string_view level) {
  std::vector<std::string> names;
  for (const Level& row : kLevels) {
    if (row.name == level) return row.faults;
    names.emplace_back(row.name);
  }
  const std::string near = nearest(level, names);
  return fail(ErrorCode::bad_input, fmt::format("the level of faults is \"{}\", expected {}{}", level,
                                                join_names(names), near.empty() ? "" : "; did you mean " + near + "?"));
}

}  // namespace gleaner::simulation
