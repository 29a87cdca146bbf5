#pragma once
// One function a planner; registry.cpp is the table.

#include <memory>

#include "scheduling/planner.hpp"

namespace gleaner {

std::unique_ptr<Planner> make_joint_planner();
std::unique_ptr<Planner> make_uniform_planner();

}  // namespace gleaner
