#pragma once
// The settings of virtual devices, as an experiment's file gives them. Plain data, checked by parse_experiment.

#include <cstdint>
#include <string>
#include <vector>

#include "common/clock.hpp"

namespace gleaner::simulation {

// A rate over a class of devices: median x exp(sigma x normal). sigma 0: all alike.
struct Spread {
  double median = 0.0;
  double sigma = 0.0;
};

struct DeviceClass {
  std::string name;
  double share = 1.0;  // relative to the sum over all classes
  Spread samples_per_s{200.0, 0.0};
  Spread uplink_kbit_per_s{5'000.0, 0.0};  // of 1000 bits
  Spread downlink_kbit_per_s{20'000.0, 0.0};
};

// What the profile does not say of a device.
struct LinkDefaults {
  Duration latency = std::chrono::milliseconds(50);
  double jitter = 0.1;
  double loss = 0.0;
  double failure_rate = 0.0;
};

struct DeviceSettings {
  std::string profile = "constant";  // constant, lognormal, csv, fedscale
  double samples_per_s = 200.0;      // constant
  double uplink_kbit_per_s = 5'000.0;
  double downlink_kbit_per_s = 20'000.0;
  std::vector<DeviceClass> classes;  // lognormal
  std::string capacity_file;         // csv: our own columns; fedscale: a pickle of capacities
  LinkDefaults link;

  std::string availability = "always";        // always, periodic, exponential, fedscale
  Duration period = std::chrono::hours(24);   // periodic
  double on_share = 0.25;                     // periodic
  Duration mean_on = std::chrono::hours(1);   // exponential
  Duration mean_off = std::chrono::hours(3);  // exponential
  std::string availability_file;              // fedscale: a pickle of behaviour
};

}  // namespace gleaner::simulation
