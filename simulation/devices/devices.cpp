#include "simulation/devices/devices.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/check.hpp"
#include "simulation/devices/sources.hpp"

namespace gleaner::simulation {
namespace {

class Joined final : public Devices {
 public:
  Joined(std::unique_ptr<TraitsSource> traits, std::unique_ptr<AvailabilitySource> availability)
      : traits_(std::move(traits)), availability_(std::move(availability)) {}

  DeviceTraits traits(std::uint32_t device) const override { return traits_->traits(device); }
  Availability availability(std::uint32_t device, Instant t) const override {
    GLEANER_CHECK(t.since_start >= Duration::zero());
    return availability_->availability(device, t);
  }

 private:
  std::unique_ptr<TraitsSource> traits_;
  std::unique_ptr<AvailabilitySource> availability_;
};

Result<std::unique_ptr<TraitsSource>> make_traits(const DeviceSettings& settings, std::uint64_t seed) {
  if (settings.profile == "constant") return make_constant(settings);
  if (settings.profile == "lognormal") return make_lognormal(settings, seed);
  if (settings.profile == "csv") return make_csv(settings);
  if (settings.profile == "fedscale") return make_fedscale_capacity(settings);
  return fail(ErrorCode::bad_input, fmt::format("there is no device profile \"{}\"", settings.profile));
}

Result<std::unique_ptr<AvailabilitySource>> make_availability(const DeviceSettings& settings, std::uint64_t seed) {
  if (settings.availability == "always") return make_always();
  if (settings.availability == "periodic") return make_periodic(settings, seed);
  if (settings.availability == "exponential") return make_exponential(settings, seed);
  if (settings.availability == "fedscale") return make_fedscale_behaviour(settings);
  return fail(ErrorCode::bad_input, fmt::format("there is no availability \"{}\"", settings.availability));
}

}  // namespace

Result<std::unique_ptr<Devices>> make_devices(const DeviceSettings& settings, std::uint64_t seed) {
  GLEANER_ASSIGN(auto traits, make_traits(settings, seed));
  GLEANER_ASSIGN(auto availability, make_availability(settings, seed));
  return std::make_unique<Joined>(std::move(traits), std::move(availability));
}

Random device_stream(std::uint64_t seed, std::uint32_t device, Draw what, std::uint32_t index) {
  return Random(seed, Purpose::device_model, (static_cast<std::uint64_t>(what) << 32) | device, index);
}

}  // namespace gleaner::simulation
