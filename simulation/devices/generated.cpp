#include "simulation/devices/portable_math.hpp"
#include "simulation/devices/sources.hpp"

namespace gleaner::simulation {
namespace {

DeviceTraits with_link(const LinkDefaults& link) {
  return {.latency = link.latency, .jitter = link.jitter, .loss = link.loss, .failure_rate = link.failure_rate};
}

class Constant final : public TraitsSource {
 public:
  explicit Constant(const DeviceSettings& settings) : traits_(with_link(settings.link)) {
    traits_.samples_per_s = settings.samples_per_s;
    traits_.uplink_bytes_per_s = bytes_per_s(settings.uplink_kbit_per_s);
    traits_.downlink_bytes_per_s = bytes_per_s(settings.downlink_kbit_per_s);
  }
  DeviceTraits traits(std::uint32_t) const override { return traits_; }

 private:
  DeviceTraits traits_;
};

double draw(const Spread& spread, Random& random) {
  const double normal = portable_normal(random);  // drawn in any case: another sigma leaves the other rates alone
  return spread.sigma == 0.0 ? spread.median : spread.median * portable_exp(spread.sigma * normal);
}

class Lognormal final : public TraitsSource {
 public:
  Lognormal(const DeviceSettings& settings, std::uint64_t seed)
      : classes_(settings.classes), link_(settings.link), seed_(seed) {
    if (classes_.empty()) classes_.push_back(DeviceClass{});
    for (const DeviceClass& one : classes_) total_ += one.share;
  }

  DeviceTraits traits(std::uint32_t device) const override {
    Random random = device_stream(seed_, device, Draw::traits);
    double left = random.uniform() * total_;
    std::size_t i = 0;
    while (i + 1 < classes_.size() && left >= classes_[i].share) left -= classes_[i++].share;
    DeviceTraits traits = with_link(link_);
    traits.samples_per_s = draw(classes_[i].samples_per_s, random);
    traits.uplink_bytes_per_s = bytes_per_s(draw(classes_[i].uplink_kbit_per_s, random));
    traits.downlink_bytes_per_s = bytes_per_s(draw(classes_[i].downlink_kbit_per_s, random));
    return traits;
  }

 private:
  std::vector<DeviceClass> classes_;
  LinkDefaults link_;
  std::uint64_t seed_;
  double total_ = 0.0;
};

}  // namespace

std::unique_ptr<TraitsSource> make_constant(const DeviceSettings& settings) {
  return std::make_unique<Constant>(settings);
}

std::unique_ptr<TraitsSource> make_lognormal(const DeviceSettings& settings, std::uint64_t seed) {
  return std::make_unique<Lognormal>(settings, seed);
}

}  // namespace gleaner::simulation
