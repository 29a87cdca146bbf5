#pragma once
// Who takes part in a round, how many entries each may send, how much local work it does and until when: one decision,
// a pure function of its inputs (same inputs, same plan). k of a device is the least of what the recipe, its measured
// uplink within the deadline, and the run's byte budget allow.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.hpp"
#include "common/error.hpp"
#include "common/ids.hpp"

namespace gleaner {

// What is known of a device; rates are exponentially weighted means of measurements, 0 = not measured yet.
struct DeviceProfile {
  DeviceName name;
  std::uint32_t samples = 0;
  double uplink_bytes_per_s = 0.0;
  double downlink_bytes_per_s = 0.0;
  double samples_per_s = 0.0;  // local training
  std::uint32_t rounds_since_planned = 0;
  std::uint32_t failures_in_a_row = 0;  // plans that lapsed without an answer
  std::uint64_t sync_bytes = 0;         // what it costs to bring it to the base model
};

struct PlannerSettings {
  std::uint64_t seed = 0;
  bool reproducible = false;      // fixed k and cohort = everybody eligible up to cohort_size; waits for all
  std::uint32_t cohort_size = 0;  // devices wanted; 0 = all
  double over_selection = 1.0;    // plans issued = ceil(cohort * this)
  double quorum = 0.8;            // share of the cohort whose answers close the round
  std::uint32_t min_devices = 1;  // below it no round starts
  Duration deadline{};            // 0 = wait for all
  std::uint32_t dimension = 0;
  double density_up = 0.01;                  // recipe's k / dimension
  double bytes_per_entry = 2.2;              // of an upload, measured in the previous rounds
  std::uint64_t uplink_bytes_per_round = 0;  // budget over the cohort; 0 = none
  std::uint32_t local_epochs = 1;
  std::uint32_t batch_size = 32;

  friend bool operator==(const PlannerSettings&, const PlannerSettings&) = default;
};

struct PlannedDevice {
  DeviceName name;
  std::uint32_t entries_max = 0;
  std::uint32_t steps_max = 0;  // 0 = all local epochs
  std::string limited_by;       // "recipe", "uplink", "budget": for the operator
};

struct RoundPlan {
  std::vector<PlannedDevice> devices;  // in name order
  std::uint32_t answers_wanted = 0;    // quorum, in devices
  Duration deadline{};                 // 0 = none
};

class Planner {
 public:
  virtual ~Planner() = default;
  virtual std::string_view name() const = 0;
  // eligible in any order; not enough of them is an Error (retry) that says how many are missing.
  virtual Result<RoundPlan> plan(const PlannerSettings& settings, std::uint32_t round,
                                 std::vector<DeviceProfile> eligible) const = 0;
};

Result<std::unique_ptr<Planner>> make_planner(std::string_view name);  // "joint", "uniform"
std::vector<std::string> planner_names();

// Exponentially weighted mean of a rate; the first measurement counts whole.
double update_rate(double mean, double measured, double weight = 0.3);

}  // namespace gleaner
