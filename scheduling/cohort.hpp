#pragma once
// The parts of a plan that planners share: checks, head counts and the seeded draw. Only integers and exactly rounded
// arithmetic, so that every machine draws the same cohort.

#include <cstdint>
#include <vector>

#include "common/error.hpp"
#include "scheduling/planner.hpp"

namespace gleaner {

struct HeadCount {
  std::uint32_t planned = 0;         // plans to issue
  std::uint32_t answers_wanted = 0;  // of them, what closes the round
};

// ceil(count * share), where a product that is an integer but for rounding stays that integer.
std::uint32_t ceil_share(std::uint32_t count, double share);

// bad_input for settings that make no sense, retry when fewer than min_devices are eligible.
Result<HeadCount> count_heads(const PlannerSettings& settings, std::uint32_t eligible);

// Sorts by name, so that the order in which devices were listed never matters. Names are unique (GLEANER_CHECK).
void sort_by_name(std::vector<DeviceProfile>& devices);

// Ascending positions of `count` of `eligible` devices; the stream depends on (seed, round) alone.
std::vector<std::uint32_t> draw_uniform(std::uint64_t seed, std::uint32_t round, std::uint32_t eligible,
                                        std::uint32_t count);

// As above, but every failure in a row halves a device's chance (down to 1/64), and whoever waited longer than
// patience_rounds comes first, the longest overdue before the others. So nobody waits more than
// patience_rounds + ceil(eligible / count) rounds.
std::vector<std::uint32_t> draw_weighted(std::uint64_t seed, std::uint32_t round,
                                         const std::vector<DeviceProfile>& eligible, std::uint32_t count);

// How long a device is left to chance: four turns of a fair rotation, more after failures, up to four times that.
std::uint32_t patience_rounds(std::uint32_t failures_in_a_row, std::uint32_t eligible, std::uint32_t count);

}  // namespace gleaner
