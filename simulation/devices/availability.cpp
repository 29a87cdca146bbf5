#include <algorithm>

#include "simulation/devices/portable_math.hpp"
#include "simulation/devices/sources.hpp"

namespace gleaner::simulation {
namespace {

class Always final : public AvailabilitySource {
 public:
  Availability availability(std::uint32_t, Instant) const override { return {}; }
};

class Periodic final : public AvailabilitySource {
 public:
  Periodic(const DeviceSettings& settings, std::uint64_t seed)
      : period_(settings.period),
        on_(static_cast<std::int64_t>(static_cast<double>(settings.period.count()) * settings.on_share + 0.5)),
        seed_(seed) {}

  Availability availability(std::uint32_t device, Instant t) const override {
    if (on_ >= period_) return {};
    const double phase = device_stream(seed_, device, Draw::phase).uniform();
    const Duration shift(static_cast<std::int64_t>(phase * static_cast<double>(period_.count())));
    const Duration at = (t.since_start % period_ + shift) % period_;
    return {.reachable = at < on_, .until = t + ((at < on_ ? on_ : period_) - at)};
  }

 private:
  Duration period_;
  Duration on_;
  std::uint64_t seed_;
};

// On and off for exponential times in turn. So that no device has to be followed from the start, time is cut into
// blocks of sixteen turns, and each block begins afresh in a state drawn by its share of the time: such times have no
// memory, so that they stay exponential and a moment's chance to be on stays what it was; only what a device did in one
// block says nothing of the next.
class Exponential final : public AvailabilitySource {
 public:
  Exponential(const DeviceSettings& settings, std::uint64_t seed)
      : mean_on_(static_cast<double>(settings.mean_on.count())),
        mean_off_(static_cast<double>(settings.mean_off.count())),
        block_((settings.mean_on + settings.mean_off) * kTurnsPerBlock),
        seed_(seed) {}

  Availability availability(std::uint32_t device, Instant t) const override {
    const std::int64_t block = t.since_start / block_;
    const Availability here = within(device, block, t.since_start % block_);
    Availability all = here;
    // A state that lasts into the next blocks; a promise ends after some of them, and is then asked for again.
    for (std::int64_t next = block + 1; *all.until == start_of(next) && next < block + kBlocksAhead; ++next) {
      const Availability then = within(device, next, Duration::zero());
      if (then.reachable != here.reachable) break;
      all.until = then.until;
    }
    return all;
  }

 private:
  static constexpr std::int64_t kTurnsPerBlock = 16;
  static constexpr std::int64_t kBlocksAhead = 4;
  static constexpr Duration kShortest = std::chrono::milliseconds(1);  // bounds the turns of a block

  Instant start_of(std::int64_t block) const { return {block_ * block}; }

  Availability within(std::uint32_t device, std::int64_t block, Duration at) const {
    Random random = device_stream(seed_, device, Draw::on_off, static_cast<std::uint32_t>(block));
    bool on = random.uniform() * (mean_on_ + mean_off_) < mean_on_;
    for (Duration end{};; on = !on) {
      const double length = portable_exponential(random) * (on ? mean_on_ : mean_off_);
      end += std::max(kShortest, Duration(static_cast<std::int64_t>(length)));
      if (at < end) return {.reachable = on, .until = start_of(block) + std::min(end, block_)};
    }
  }

  double mean_on_;
  double mean_off_;
  Duration block_;
  std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<AvailabilitySource> make_always() { return std::make_unique<Always>(); }

std::unique_ptr<AvailabilitySource> make_periodic(const DeviceSettings& settings, std::uint64_t seed) {
  return std::make_unique<Periodic>(settings, seed);
}

std::unique_ptr<AvailabilitySource> make_exponential(const DeviceSettings& settings, std::uint64_t seed) {
  return std::make_unique<Exponential>(settings, seed);
}

}  // namespace gleaner::simulation
