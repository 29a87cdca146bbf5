#include "scheduling/cohort.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "common/check.hpp"
#include "common/random.hpp"

namespace gleaner {
namespace {

constexpr std::uint32_t kHalvingsMax = 6;

// Weights with prefix sums in a Fenwick tree: drawing one and taking it out costs O(log n).
class WeightedUrn {
 public:
  explicit WeightedUrn(std::span<const std::uint32_t> weights) : tree_(weights.size() + 1) {
    for (std::size_t i = 0; i < weights.size(); ++i) add(i, weights[i]);
  }

  std::uint64_t total() const { return total_; }

  // The position whose weights cover `ticket` (below total()); it is taken out.
  std::size_t take(std::uint64_t ticket, std::span<const std::uint32_t> weights) {
    std::size_t position = 0;
    for (std::size_t step = std::bit_floor(tree_.size() - 1); step != 0; step /= 2) {
      if (position + step < tree_.size() && tree_[position + step] <= ticket) {
        position += step;
        ticket -= tree_[position];
      }
    }
    add(position, std::uint64_t{0} - weights[position]);
    return position;
  }

 private:
  // Modular arithmetic: taking out is adding the negative.
  void add(std::size_t position, std::uint64_t weight) {
    total_ += weight;
    for (std::size_t i = position + 1; i < tree_.size(); i += i & (~i + 1)) tree_[i] += weight;
  }

  std::vector<std::uint64_t> tree_;
  std::uint64_t total_ = 0;
};

std::uint64_t below64(Random& random, std::uint64_t bound) {
  // Rejection keeps it unbiased; bounds are far below 2^63, so a second draw is rare.
  const std::uint64_t limit = bound * (UINT64_MAX / bound);
  std::uint64_t drawn = random.bits64();
  while (drawn >= limit) drawn = random.bits64();
  return drawn % bound;
}

Status check(const PlannerSettings& s) {
  const auto wrong = [](std::string_view key, double value, std::string_view expected) {
    return fail(ErrorCode::bad_input, fmt::format("{} is {}: it must be {}", key, value, expected));
  };
  if (!(s.over_selection >= 1.0 && s.over_selection <= 100.0)) {
    return wrong("over_selection", s.over_selection, "between 1 and 100");
  }
  if (!(s.quorum > 0.0 && s.quorum <= 1.0)) return wrong("quorum", s.quorum, "above 0 and at most 1");
  if (!(s.density_up > 0.0 && s.density_up <= 1.0)) return wrong("density", s.density_up, "above 0 and at most 1");
  if (!(s.bytes_per_entry > 0.0 && std::isfinite(s.bytes_per_entry))) {
    return wrong("bytes_per_entry", s.bytes_per_entry, "above 0");
  }
  if (s.dimension == 0) return wrong("dimension", 0.0, "above 0");
  if (s.batch_size == 0) return wrong("batch_size", 0.0, "above 0");
  if (s.deadline < Duration::zero()) return wrong("deadline (s)", to_seconds(s.deadline), "0 (none) or above");
  return {};
}

}  // namespace

std::uint32_t ceil_share(std::uint32_t count, double share) {
  const double product = count * share;
  return static_cast<std::uint32_t>(std::min(std::ceil(product - 1e-9 * product), 4294967295.0));
}

Result<HeadCount> count_heads(const PlannerSettings& settings, std::uint32_t eligible) {
  GLEANER_TRY(check(settings));
  const std::uint32_t least = std::max(settings.min_devices, 1U);
  if (eligible < least) {
    return fail(ErrorCode::retry, fmt::format("{} of the {} devices a round needs are ready: waiting for {} more",
                                              eligible, least, least - eligible));
  }
  const std::uint32_t cohort = settings.cohort_size == 0 ? eligible : std::min(settings.cohort_size, eligible);
  if (settings.reproducible) return HeadCount{.planned = cohort, .answers_wanted = cohort};
  HeadCount heads;
  heads.planned = std::clamp(ceil_share(cohort, settings.over_selection), cohort, eligible);
  heads.answers_wanted = std::clamp(ceil_share(cohort, settings.quorum), 1U, cohort);
  return heads;
}

void sort_by_name(std::vector<DeviceProfile>& devices) {
  // A million of them most often come in order.
  if (!std::ranges::is_sorted(devices, {}, &DeviceProfile::name)) {
    std::ranges::sort(devices, {}, &DeviceProfile::name);
  }
  const auto twin = std::ranges::adjacent_find(devices, {}, &DeviceProfile::name);
  GLEANER_CHECK(twin == devices.end());
}

std::vector<std::uint32_t> draw_uniform(std::uint64_t seed, std::uint32_t round, std::uint32_t eligible,
                                        std::uint32_t count) {
  GLEANER_CHECK(count <= eligible);
  std::vector<std::uint32_t> positions(eligible);
  std::iota(positions.begin(), positions.end(), 0U);
  if (count < eligible) {
    Random random(seed, Purpose::cohort, round);
    for (std::uint32_t i = 0; i < count; ++i) std::swap(positions[i], positions[i + random.below(eligible - i)]);
    positions.resize(count);
    std::ranges::sort(positions);
  }
  return positions;
}

std::uint32_t patience_rounds(std::uint32_t failures_in_a_row, std::uint32_t eligible, std::uint32_t count) {
  GLEANER_CHECK(count > 0 && count <= eligible);
  const std::uint64_t rotation = (std::uint64_t{eligible} + count - 1) / count;
  const std::uint64_t rounds = 4 * rotation * (1 + std::min(failures_in_a_row, 3U));
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(rounds, UINT32_MAX));
}

std::vector<std::uint32_t> draw_weighted(std::uint64_t seed, std::uint32_t round,
                                         const std::vector<DeviceProfile>& eligible, std::uint32_t count) {
  const auto all = static_cast<std::uint32_t>(eligible.size());
  GLEANER_CHECK(count > 0 && count <= all);
  if (count == all) return draw_uniform(seed, round, all, count);

  struct Overdue {
    std::uint32_t excess;
    std::uint32_t position;
  };
  std::vector<Overdue> overdue;
  std::vector<std::uint32_t> weights(all);
  for (std::uint32_t i = 0; i < all; ++i) {
    const DeviceProfile& device = eligible[i];
    const std::uint32_t patience = patience_rounds(device.failures_in_a_row, all, count);
    const bool waited = device.rounds_since_planned >= patience;
    weights[i] = waited ? 0 : 1U << (kHalvingsMax - std::min(device.failures_in_a_row, kHalvingsMax));
    if (waited) overdue.push_back({device.rounds_since_planned - patience, i});
  }
  std::ranges::sort(overdue, [](const Overdue& a, const Overdue& b) {
    return a.excess != b.excess ? a.excess > b.excess : a.position < b.position;
  });

  std::vector<std::uint32_t> positions;
  positions.reserve(count);
  for (const Overdue& device : overdue) {
    if (positions.size() == count) break;
    positions.push_back(device.position);
  }
  WeightedUrn urn(weights);
  Random random(seed, Purpose::cohort, round);
  while (positions.size() < count) {
    const std::size_t position = urn.take(below64(random, urn.total()), weights);
    positions.push_back(static_cast<std::uint32_t>(position));
  }
  std::ranges::sort(positions);
  return positions;
}

}  // namespace gleaner
