#pragma once
// How many entries a device may send and how much local work it does: recipe, deadline, budget.

#include <cstdint>
#include <span>
#include <vector>

#include "scheduling/planner.hpp"

namespace gleaner {

// The recipe's k: density times dimension to the nearest integer, at least 1.
std::uint32_t recipe_entries(const PlannerSettings& settings);

struct Workload {
  std::uint32_t entries_max = 0;
  std::uint32_t steps_max = 0;  // 0 = all local epochs
};

// What fits before the deadline, of which a tenth is kept for what measurements do not foretell: the download comes
// off, then training, then the upload takes the rest. Training is cut (never below one step) only as far as it would
// leave the upload less than a quarter of the time, or less than the recipe's entries need. Rates that were not
// measured yet cost no time. At least one entry.
Workload fit_deadline(const PlannerSettings& settings, const DeviceProfile& device);

// Water-filling: everybody gets the same number of entries but nobody more than its cap, and what is left over goes one
// by one to the first who can still take it. Each gets at least one; the sum is at most max(entries, caps.size()).
std::vector<std::uint32_t> fill_water(std::span<const std::uint32_t> caps, std::uint64_t entries);

// Entries that bytes pay for, rounded down.
std::uint64_t entries_within(std::uint64_t bytes, double bytes_per_entry);

}  // namespace gleaner
