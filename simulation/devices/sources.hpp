#pragma once
// The two halves of a device, each from a source of its own; devices.cpp puts them together.

#include <cstdint>
#include <memory>
#include <string>

#include "common/random.hpp"
#include "simulation/devices/devices.hpp"

namespace gleaner::simulation {

class TraitsSource {
 public:
  virtual ~TraitsSource() = default;
  virtual DeviceTraits traits(std::uint32_t device) const = 0;
};

class AvailabilitySource {
 public:
  virtual ~AvailabilitySource() = default;
  virtual Availability availability(std::uint32_t device, Instant t) const = 0;
};

// What is drawn for a device from the one seed, each from a stream of its own.
enum class Draw : std::uint64_t { traits = 1, on_off = 2, phase = 3, failure = 4 };
Random device_stream(std::uint64_t seed, std::uint32_t device, Draw what, std::uint32_t index = 0);

// 5 kbit/s are 625 bytes/s.
constexpr double bytes_per_s(double kbit_per_s) { return kbit_per_s * 125.0; }

std::unique_ptr<TraitsSource> make_constant(const DeviceSettings& settings);
std::unique_ptr<TraitsSource> make_lognormal(const DeviceSettings& settings, std::uint64_t seed);

// A file with a line for each device, after a line with the names of the columns: samples_per_s, uplink_kbit_per_s and
// downlink_kbit_per_s, and where they are there latency_ms, jitter, loss and failure_rate. Device i takes line i modulo
// their number. Empty lines and those that begin with # are skipped.
Result<std::unique_ptr<TraitsSource>> make_csv(const DeviceSettings& settings);

// FedScale's traces (pickles of dictionaries): device i takes entry i modulo their number, in the file's order.
// Capacity: {id: {"computation": ms of inference a sample, "communication": kbit/s of 1024 bits, both ways}}; training
// takes three times the inference. Behaviour: {id: {"active": [...], "inactive": [...], "finish_time": n}}: on from
// active[i] to inactive[i] seconds, again and again after finish_time.
Result<std::unique_ptr<TraitsSource>> make_fedscale_capacity(const DeviceSettings& settings);
Result<std::unique_ptr<AvailabilitySource>> make_fedscale_behaviour(const DeviceSettings& settings);

std::unique_ptr<AvailabilitySource> make_always();
std::unique_ptr<AvailabilitySource> make_periodic(const DeviceSettings& settings, std::uint64_t seed);
std::unique_ptr<AvailabilitySource> make_exponential(const DeviceSettings& settings, std::uint64_t seed);

// A whole trace; bad_input when it cannot be read or is larger than 512 MiB.
Result<std::string> read_trace(const std::string& path);

}  // namespace gleaner::simulation
