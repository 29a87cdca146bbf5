#include <algorithm>
#include <bit>
#include <cmath>

#include "common/random.hpp"
#include "simulation/devices/devices.hpp"
#include "simulation/devices/sources.hpp"

namespace gleaner::simulation {
namespace {

constexpr std::uint64_t kSegmentBytes = 1460;

// Nothing lasts longer, so that no sum of durations overflows.
constexpr double kLongestNs = 10.0 * 365.0 * 86'400.0 * 1e9;

Duration from_ns(double ns) { return Duration(static_cast<std::int64_t>(std::clamp(ns, 0.0, kLongestNs) + 0.5)); }

// How many of so many segments are lost, each by itself: 64 at a time, whose numbers are compared with the chance from
// the highest bit on, until all of them are decided.
std::uint64_t count_lost(Random& random, std::uint64_t segments, double loss) {
  const auto chance = static_cast<std::uint32_t>(loss * 0x1.0p32);
  std::uint64_t count = 0;
  for (; segments > 0; segments -= std::min<std::uint64_t>(segments, 64)) {
    std::uint64_t open = segments >= 64 ? ~0ULL : (1ULL << segments) - 1;
    std::uint64_t lost = 0;
    for (std::uint32_t rest = chance; rest != 0 && open != 0; rest <<= 1) {
      const std::uint64_t digits = random.bits64();
      if ((rest >> 31) != 0) {
        lost |= open & ~digits;
        open &= digits;
      } else {
        open &= ~digits;
      }
    }
    count += static_cast<std::uint64_t>(std::popcount(lost));
  }
  return count;
}

}  // namespace

Duration transfer_time(const DeviceTraits& traits, std::uint64_t bytes, Direction direction, const TransferDraw& draw) {
  const bool is_up = direction == Direction::up;
  Random random(draw.seed, Purpose::network, (draw.transfer << 1) | (is_up ? 1U : 0U), draw.device);
  double factor = 1.0;
  if (traits.jitter > 0.0) factor += traits.jitter * (2.0 * random.uniform() - 1.0);
  std::uint64_t lost = 0;
  if (traits.loss > 0.0) {
    const std::uint64_t segments = bytes / kSegmentBytes + (bytes % kSegmentBytes != 0 ? 1 : 0);
    lost = count_lost(random, segments, traits.loss);
  }
  const double rate = is_up ? traits.uplink_bytes_per_s : traits.downlink_bytes_per_s;
  const double sent = static_cast<double>(bytes) + static_cast<double>(std::min(bytes, lost * kSegmentBytes));
  const double trips = static_cast<double>(traits.latency.count()) * (2.0 * static_cast<double>(lost) + 1.0);
  return from_ns(sent * 1e9 / rate * factor + trips);
}

Duration compute_time(const DeviceTraits& traits, std::uint64_t samples) {
  return from_ns(static_cast<double>(samples) * 1e9 / traits.samples_per_s);
}

bool drops_plan(const DeviceTraits& traits, const PlanDraw& draw) {
  if (traits.failure_rate <= 0.0) return false;
  return device_stream(draw.seed, draw.device, Draw::failure, draw.plan).uniform() < traits.failure_rate;
}

}  // namespace gleaner::simulation
