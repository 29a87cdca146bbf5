// Cohort, entries and local work in one decision. In the spirit of Lin et al. (IEEE TGCN 2023, joint sparsification and
// device scheduling) with measured rates in place of a channel model: the sparsity of a device follows what its link
// carries by the deadline, and the run's byte budget is filled like water over the cohort.

#include <algorithm>

#include "scheduling/cohort.hpp"
#include "scheduling/entries.hpp"
#include "scheduling/planners.hpp"

namespace gleaner {
namespace {

class JointPlanner final : public Planner {
 public:
  std::string_view name() const override { return "joint"; }

  Result<RoundPlan> plan(const PlannerSettings& settings, std::uint32_t round,
                         std::vector<DeviceProfile> eligible) const override {
    sort_by_name(eligible);
    const auto count = static_cast<std::uint32_t>(eligible.size());
    GLEANER_ASSIGN(const HeadCount heads, count_heads(settings, count));
    const std::uint32_t recipe = recipe_entries(settings);
    RoundPlan plan{.devices = {},
                   .answers_wanted = heads.answers_wanted,
                   .deadline = settings.reproducible ? Duration::zero() : settings.deadline};
    plan.devices.reserve(heads.planned);
    // What was measured differs from one run of the machine to the next: a reproducible plan looks at none of it.
    if (settings.reproducible) {
      for (const std::uint32_t i : draw_uniform(settings.seed, round, count, heads.planned)) {
        plan.devices.push_back({std::move(eligible[i].name), recipe, 0, "recipe"});
      }
      return plan;
    }
    for (const std::uint32_t i : draw_weighted(settings.seed, round, eligible, heads.planned)) {
      const Workload work = fit_deadline(settings, eligible[i]);
      plan.devices.push_back({std::move(eligible[i].name), work.entries_max, work.steps_max,
                              work.entries_max < recipe ? "uplink" : "recipe"});
    }
    if (settings.uplink_bytes_per_round != 0) share_budget(settings, plan.devices);
    return plan;
  }

 private:
  static void share_budget(const PlannerSettings& settings, std::vector<PlannedDevice>& devices) {
    std::vector<std::uint32_t> caps;
    caps.reserve(devices.size());
    for (const PlannedDevice& device : devices) caps.push_back(device.entries_max);
    const std::uint64_t entries = entries_within(settings.uplink_bytes_per_round, settings.bytes_per_entry);
    const std::vector<std::uint32_t> granted = fill_water(caps, entries);
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (granted[i] == devices[i].entries_max) continue;
      devices[i].entries_max = granted[i];
      devices[i].limited_by = "budget";
    }
  }
};

}  // namespace

std::unique_ptr<Planner> make_joint_planner() { return std::make_unique<JointPlanner>(); }

}  // namespace gleaner
