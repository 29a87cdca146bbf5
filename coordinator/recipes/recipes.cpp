#include "coordinator/recipes/recipes.hpp"

#include <algorithm>
#include <array>

namespace gleaner {
namespace {

// One row a recipe. What a recipe is tuned by stands here and nowhere else.
constexpr std::array<Recipe, 3> kRecipes = {{
    {.name = "fedavg",
     .summary = "dense updates both ways, divided by the weight that arrived: the baseline",
     .compressor = "dense",
     .density_up = 1.0,
     .density_down = 1.0,
     .value_format_up = "f32",
     .value_format_down = ValueFormat::f32,
     .upload_rule = "always",
     .skip_share = 0.0,
     .keep_residual = false,
     .fixed_divisor = false},
    {.name = "topk",
     .summary = "the largest entries both ways, error feedback on both ends, everybody sends in every round",
     .compressor = "topk",
     .density_up = 0.01,
     .density_down = 0.005,
     .value_format_up = "int8",
     .value_format_down = ValueFormat::f16,
     .upload_rule = "always",
     .skip_share = 0.0,
     .keep_residual = true,
     .fixed_divisor = true},
    {.name = "gsasg",
     .summary = "like topk, and devices with little to say stay silent and keep it for later",
     .compressor = "topk",
     .density_up = 0.005,
     .density_down = 0.005,
     .value_format_up = "int8",
     .value_format_down = ValueFormat::f16,
     .upload_rule = "residual",
     .skip_share = 0.3,
     .keep_residual = true,
     .fixed_divisor = true},
}};

}  // namespace

std::span<const Recipe> known_recipes() { return kRecipes; }

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const Recipe& recipe : kRecipes) names.emplace_back(recipe.name);
  return names;
}

bool apply_recipe(std::string_view name, RunSettings& settings) {
  const auto recipe = std::ranges::find(kRecipes, name, &Recipe::name);
  if (recipe == kRecipes.end()) return false;
  settings.spec.recipe = recipe->name;
  settings.spec.compressor = recipe->compressor;
  settings.spec.value_format_up = recipe->value_format_up;
  settings.spec.upload_rule = recipe->upload_rule;
  settings.spec.skip_share = recipe->skip_share;
  settings.planning.density_up = recipe->density_up;
  settings.density_down = recipe->density_down;
  settings.step.patch_values = recipe->value_format_down;
  settings.step.keep_residual = recipe->keep_residual;
  settings.fixed_divisor = recipe->fixed_divisor;
  return true;
}

}  // namespace gleaner
