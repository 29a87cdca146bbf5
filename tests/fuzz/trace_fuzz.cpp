// Whatever lies in a trace, it is refused with the file's name, or every device that it gives has rates above 0, a
// chance of failing below 1, and times that go on. The first byte says which half of a device the trace is of.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "simulation/devices/devices.hpp"
#include "tests/fuzz/fuzz_file.hpp"

namespace gleaner::simulation {
namespace {

bool is_rate(double value) { return std::isfinite(value) && value > 0.0; }

void check_device(const Devices& devices, std::uint32_t device) {
  const DeviceTraits traits = devices.traits(device);
  GLEANER_CHECK(is_rate(traits.samples_per_s) && is_rate(traits.uplink_bytes_per_s));
  GLEANER_CHECK(is_rate(traits.downlink_bytes_per_s) && traits.latency >= Duration{});
  GLEANER_CHECK(traits.jitter >= 0.0 && traits.jitter < 1.0 && traits.loss >= 0.0 && traits.loss < 1.0);
  GLEANER_CHECK(traits.failure_rate >= 0.0 && traits.failure_rate < 1.0);
  const TransferDraw draw{.seed = 1, .device = device, .transfer = 3};
  GLEANER_CHECK(transfer_time(traits, 10'000, Direction::up, draw) >= traits.latency);
  GLEANER_CHECK(compute_time(traits, 100) >= Duration{});
  Instant now{};
  for (int i = 0; i < 5; ++i) {
    const Availability there = devices.availability(device, now);
    if (!there.until) return;
    GLEANER_CHECK(*there.until > now);
    now = *there.until;
  }
}

void run(std::string_view bytes) {
  static const FuzzFolder folder;
  if (bytes.empty()) return;
  folder.write("trace", bytes.substr(1));
  DeviceSettings settings;
  const std::string path = (folder.path() / "trace").string();
  switch (bytes.front()) {
    case 't':
      settings.profile = "csv";
      settings.capacity_file = path;
      break;
    case 'c':
      settings.profile = "fedscale";
      settings.capacity_file = path;
      break;
    case 'b':
      settings.availability = "fedscale";
      settings.availability_file = path;
      break;
    default: return;
  }
  const auto devices = make_devices(settings, 1);
  if (!devices) {
    GLEANER_CHECK(devices.error().message().contains(path));
    return;
  }
  for (std::uint32_t device = 0; device < 5; ++device) check_device(**devices, device);
}

}  // namespace
}  // namespace gleaner::simulation

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  gleaner::simulation::run({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
