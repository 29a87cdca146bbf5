#include "scheduling/entries.hpp"

#include <algorithm>
#include <cmath>

#include "common/check.hpp"

namespace gleaner {
namespace {

constexpr double kUsableShare = 0.9;
constexpr double kUploadShareMin = 0.25;

bool measured(double rate) { return std::isfinite(rate) && rate > 0.0; }

}  // namespace

std::uint32_t recipe_entries(const PlannerSettings& settings) {
  const double entries = std::floor(settings.dimension * settings.density_up + 0.5);
  return std::clamp(static_cast<std::uint32_t>(entries), 1U, settings.dimension);
}

Workload fit_deadline(const PlannerSettings& settings, const DeviceProfile& device) {
  const std::uint32_t recipe = recipe_entries(settings);
  Workload work{.entries_max = recipe, .steps_max = 0};
  if (settings.deadline == Duration::zero()) return work;

  double available_s = kUsableShare * to_seconds(settings.deadline);
  if (measured(device.downlink_bytes_per_s)) {
    available_s -= static_cast<double>(device.sync_bytes) / device.downlink_bytes_per_s;
  }
  available_s = std::max(available_s, 0.0);

  const bool uplink_known = measured(device.uplink_bytes_per_s);
  const double upload_s = uplink_known ? recipe * settings.bytes_per_entry / device.uplink_bytes_per_s : 0.0;
  double window_s = available_s;  // for the upload
  if (measured(device.samples_per_s)) {
    const double training_s = static_cast<double>(device.samples) * settings.local_epochs / device.samples_per_s;
    const double reserved_s = std::min(upload_s, kUploadShareMin * available_s);
    const double room_s = available_s - reserved_s;
    if (training_s > room_s) {
      const double steps = std::floor(room_s * device.samples_per_s / settings.batch_size);
      work.steps_max = static_cast<std::uint32_t>(std::clamp(steps, 1.0, 4294967295.0));
    }
    window_s = std::max(available_s - training_s, reserved_s);
  }
  if (uplink_known && window_s < upload_s) {
    const double fits = std::floor(window_s * device.uplink_bytes_per_s / settings.bytes_per_entry);
    work.entries_max = static_cast<std::uint32_t>(std::clamp(fits, 1.0, static_cast<double>(recipe)));
  }
  return work;
}

std::vector<std::uint32_t> fill_water(std::span<const std::uint32_t> caps, std::uint64_t entries) {
  std::vector<std::uint32_t> sorted(caps.begin(), caps.end());
  std::ranges::sort(sorted);
  // The level: each in ascending order takes its cap or an equal share of what is left.
  std::uint64_t left = entries;
  std::uint64_t level = UINT32_MAX;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const std::uint64_t share = left / (sorted.size() - i);
    if (share < sorted[i]) {
      level = share;
      break;
    }
    left -= sorted[i];
  }

  std::vector<std::uint32_t> granted(caps.size());
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < caps.size(); ++i) {
    GLEANER_CHECK(caps[i] > 0);
    granted[i] = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(level, 1, caps[i]));
    sum += granted[i];
  }
  for (std::size_t i = 0; i < caps.size() && sum < entries; ++i) {
    if (granted[i] == caps[i]) continue;
    ++granted[i];
    ++sum;
  }
  return granted;
}

std::uint64_t entries_within(std::uint64_t bytes, double bytes_per_entry) {
  const double budget = static_cast<double>(bytes);
  double entries = std::floor(std::min(budget / bytes_per_entry, 0x1p53));
  if (entries * bytes_per_entry > budget) entries -= 1.0;
  return static_cast<std::uint64_t>(std::max(entries, 0.0));
}

}  // namespace gleaner
