#pragma once
// What a virtual device is: how fast it computes and sends, and when it can be reached. Everything is a pure function
// of (settings, seed, device), so that a million generated devices take no memory and any order of asking gives the
// same answers. Only +, -, *, / and square roots of IEEE doubles and our own exp and log (portable_math.hpp), no libm:
// every duration is the same number of nanoseconds on every machine. Reading from several threads is safe.

#include <cstdint>
#include <memory>
#include <optional>

#include "common/clock.hpp"
#include "common/error.hpp"
#include "simulation/devices/device_settings.hpp"

namespace gleaner::simulation {

struct DeviceTraits {
  double samples_per_s = 0.0;  // local training: forward and backward
  double uplink_bytes_per_s = 0.0;
  double downlink_bytes_per_s = 0.0;
  Duration latency{};         // one way
  double jitter = 0.0;        // a transfer's time is multiplied by a number uniform in 1 - jitter to 1 + jitter
  double loss = 0.0;          // chance that a segment of 1460 bytes is sent again: its time and one round trip
  double failure_rate = 0.0;  // chance that the device drops a plan without an answer
};

// Whether a device can be reached, and until when that stays so at least: at `until` one asks again (and may hear the
// same once more). Nothing: for ever.
struct Availability {
  bool reachable = true;
  std::optional<Instant> until;
};

class Devices {
 public:
  virtual ~Devices() = default;
  virtual DeviceTraits traits(std::uint32_t device) const = 0;
  virtual Availability availability(std::uint32_t device, Instant t) const = 0;  // t from 0 on
};

// Reads the files that the settings name. Errors (bad_input): a file that cannot be read or has a mistake, with file
// and line, column or byte.
Result<std::unique_ptr<Devices>> make_devices(const DeviceSettings& settings, std::uint64_t seed);

enum class Direction : std::uint8_t { up, down };  // from the device; to the device

// Which draw it is: the how-many-th transfer of that device in that direction.
struct TransferDraw {
  std::uint64_t seed = 0;
  std::uint32_t device = 0;
  std::uint64_t transfer = 0;  // below 2^62
};

// From the first byte sent to the last one received: bytes / rate with jitter, what was lost sent again, one latency.
Duration transfer_time(const DeviceTraits& traits, std::uint64_t bytes, Direction direction, const TransferDraw& draw);

// samples counts every pass over a sample: steps x batch.
Duration compute_time(const DeviceTraits& traits, std::uint64_t samples);

// Which draw it is: the how-many-th plan of that device.
struct PlanDraw {
  std::uint64_t seed = 0;
  std::uint32_t device = 0;
  std::uint32_t plan = 0;
};
bool drops_plan(const DeviceTraits& traits, const PlanDraw& draw);

}  // namespace gleaner::simulation
