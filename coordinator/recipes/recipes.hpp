#pragma once
// Recipes: named combinations of compressor, upload rule, divisor and server step. A recipe gives defaults; a run's
// file overrides them one by one.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compression/payload.hpp"
#include "coordinator/run_settings.hpp"

namespace gleaner {

struct Recipe {
  std::string_view name;
  std::string_view summary;  // one line
  std::string_view compressor;
  double density_up = 1.0;
  double density_down = 1.0;
  std::string_view value_format_up;
  ValueFormat value_format_down = ValueFormat::f32;
  std::string_view upload_rule;
  double skip_share = 0.0;
  bool keep_residual = true;  // of the server
  bool fixed_divisor = true;
};

std::span<const Recipe> known_recipes();
std::vector<std::string> recipe_names();

// Sets what the recipe decides and leaves the rest; false when there is no such recipe.
bool apply_recipe(std::string_view name, RunSettings& settings);

}  // namespace gleaner
