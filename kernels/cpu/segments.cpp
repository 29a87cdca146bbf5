// Selections in many segments: short ones one after the other, several groups of them at once where there are threads.

#include <algorithm>
#include <vector>

#include "common/check.hpp"
#include "kernels/cpu/cpu.hpp"

namespace gleaner::cpu {
namespace {

constexpr std::size_t kGroupsPerThread = 4;  // segments differ in length

void clear(SegmentSelection& out) {
  out.indices.clear();
  out.values.clear();
  out.begins.clear();
  out.thresholds.clear();
  out.squared_norms.clear();
  out.non_finite_index = Selection::kAllFinite;
}

// The segments first ... last - 1, appended to out; stops at one with a non-finite entry.
void select_group(std::span<const float> x, std::span<const std::size_t> offsets, std::span<const std::uint32_t> ks,
                  std::size_t first, std::size_t last, SegmentSelection& out) {
  Selection found;
  for (std::size_t s = first; s < last; ++s) {
    select(x.subspan(offsets[s], offsets[s + 1] - offsets[s]), ks[s], found);
    if (found.non_finite_index != Selection::kAllFinite) {
      out.non_finite_index = offsets[s] + found.non_finite_index;
      return;
    }
    const auto offset = static_cast<std::uint32_t>(offsets[s]);
    for (const std::uint32_t index : found.indices) out.indices.push_back(offset + index);
    out.values.insert(out.values.end(), found.values.begin(), found.values.end());
    out.begins.push_back(out.indices.size());
    out.thresholds.push_back(found.threshold);
    out.squared_norms.push_back(found.squared_norm);
  }
}

void append(const SegmentSelection& group, SegmentSelection& out) {
  const std::size_t before = out.indices.size();
  out.indices.insert(out.indices.end(), group.indices.begin(), group.indices.end());
  out.values.insert(out.values.end(), group.values.begin(), group.values.end());
  for (const std::size_t begin : group.begins) out.begins.push_back(before + begin);
  out.thresholds.insert(out.thresholds.end(), group.thresholds.begin(), group.thresholds.end());
  out.squared_norms.insert(out.squared_norms.end(), group.squared_norms.begin(), group.squared_norms.end());
}

}  // namespace

void select_segments(std::span<const float> x, std::span<const std::size_t> offsets, std::span<const std::uint32_t> ks,
                     SegmentSelection& out) {
  GLEANER_CHECK(offsets.size() == ks.size() + 1 && offsets.front() == 0 && offsets.back() == x.size());
  GLEANER_CHECK(std::ranges::is_sorted(offsets) && x.size() <= std::numeric_limits<std::uint32_t>::max());
  clear(out);
  out.begins.push_back(0);
  const std::size_t width = out.parallel == nullptr ? 1 : out.parallel->width;
  if (width <= 1 || ks.size() <= 1) {
    select_group(x, offsets, ks, 0, ks.size(), out);
  } else {
    std::vector<SegmentSelection> groups(std::min(ks.size(), width * kGroupsPerThread));
    out.parallel->run(groups.size(), [&](std::size_t g) {
      select_group(x, offsets, ks, g * ks.size() / groups.size(), (g + 1) * ks.size() / groups.size(), groups[g]);
    });
    for (const SegmentSelection& group : groups) {
      out.non_finite_index = std::min(out.non_finite_index, group.non_finite_index);
      append(group, out);
    }
  }
  if (out.non_finite_index == Selection::kAllFinite) return;
  const std::uint64_t non_finite = out.non_finite_index;
  clear(out);
  out.non_finite_index = non_finite;
}

}  // namespace gleaner::cpu
