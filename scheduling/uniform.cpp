// The baseline: a cohort drawn uniformly and the recipe's k for everybody, whatever their links are like.

#include "scheduling/cohort.hpp"
#include "scheduling/entries.hpp"
#include "scheduling/planners.hpp"

namespace gleaner {
namespace {

class UniformPlanner final : public Planner {
 public:
  std::string_view name() const override { return "uniform"; }

  Result<RoundPlan> plan(const PlannerSettings& settings, std::uint32_t round,
                         std::vector<DeviceProfile> eligible) const override {
    sort_by_name(eligible);
    const auto count = static_cast<std::uint32_t>(eligible.size());
    GLEANER_ASSIGN(const HeadCount heads, count_heads(settings, count));
    RoundPlan plan{.devices = {},
                   .answers_wanted = heads.answers_wanted,
                   .deadline = settings.reproducible ? Duration::zero() : settings.deadline};
    plan.devices.reserve(heads.planned);
    for (const std::uint32_t i : draw_uniform(settings.seed, round, count, heads.planned)) {
      plan.devices.push_back({std::move(eligible[i].name), recipe_entries(settings), 0, "recipe"});
    }
    return plan;
  }
};

}  // namespace

std::unique_ptr<Planner> make_uniform_planner() { return std::make_unique<UniformPlanner>(); }

}  // namespace gleaner
