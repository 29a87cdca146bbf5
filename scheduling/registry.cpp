#include <fmt/format.h>

#include <array>
#include <cmath>

#include "common/text.hpp"
#include "scheduling/planners.hpp"

namespace gleaner {
namespace {

struct Row {
  std::string_view name;
  std::unique_ptr<Planner> (*make)();
};

constexpr std::array kPlanners = {
    Row{"joint", make_joint_planner},
    Row{"uniform", make_uniform_planner},
};

}  // namespace

std::vector<std::string> planner_names() {
  std::vector<std::string> names;
  for (const Row& row : kPlanners) names.emplace_back(row.name);
  return names;
}

Result<std::unique_ptr<Planner>> make_planner(std::string_view name) {
  for (const Row& row : kPlanners) {
    if (row.name == name) return row.make();
  }
  return fail(ErrorCode::bad_input, fmt::format("unknown planner '{}': use {}", name, join_names(planner_names())));
}

double update_rate(double mean, double measured, double weight) {
  if (!std::isfinite(measured) || measured <= 0.0) return mean;
  if (!std::isfinite(mean) || mean <= 0.0) return measured;
  return mean + weight * (measured - mean);
}

}  // namespace gleaner
