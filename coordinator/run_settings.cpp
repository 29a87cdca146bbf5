#include "coordinator/run_settings.hpp"

#include <fmt/format.h>

#include "config/reading.hpp"
#include "config/reference.hpp"
#include "coordinator/recipes/recipes.hpp"
#include "coordinator/recipes/run_keys.hpp"

namespace gleaner {
namespace {

constexpr std::string_view kDefaultRecipe = "gsasg";

// Where the file says nothing and the struct's own default would leave a round open for ever.
constexpr Duration kDefaultDeadline = std::chrono::minutes(5);

RunFile with_defaults(std::string_view recipe) {
  RunFile file;
  file.settings.planning.deadline = kDefaultDeadline;
  // An unknown recipe is reported by its key; the others are then checked against the default one.
  if (!apply_recipe(recipe, file.settings)) apply_recipe(kDefaultRecipe, file.settings);
  return file;
}

}  // namespace

RunFile run_file_with_defaults(const config::Reading& reading) {
  return with_defaults(reading.peek("run", "recipe", std::string(kDefaultRecipe)));
}

Result<RunSettings> parse_run_settings(const std::string& toml_text, const std::string& path) {
  config::Reading reading(toml_text, path);
  RunFile file = run_file_with_defaults(reading);
  reading.bind(run_schema(file));
  resolve_run(file, reading);
  check_combinations(file.settings, reading);
  check_evaluation(reading);
  GLEANER_TRY(reading.status());
  return file.settings;
}

std::string run_settings_reference() {
  RunFile file = with_defaults(kDefaultRecipe);
  std::string out = config::to_markdown(run_schema(file), "###");
  out += "### Recipes\n\nA recipe gives defaults; every one of them can be overridden.\n\n";
  out +=
      "| recipe | compressor | density | density_down | value_format | value_format_down | rule | skip_share | "
      "keep_residual | divisor | what it is |\n|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Recipe& r : known_recipes()) {
    out += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", r.name, r.compressor,
                       r.density_up, r.density_down, r.value_format_up, to_string(r.value_format_down), r.upload_rule,
                       r.skip_share, r.keep_residual, r.fixed_divisor ? "fixed" : "arrived", r.summary);
  }
  return out;
}

}  // namespace gleaner
