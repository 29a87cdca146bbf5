#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "common/text.hpp"
#include "compression/rules/rules.hpp"

namespace gleaner {
namespace {

struct Row {
  std::string_view name;
  std::unique_ptr<UploadRule> (*make)(const UploadRuleOptions&);
};
constexpr std::array kRows = {Row{"always", make_always}, Row{"residual", make_residual_rule},
                              Row{"lasg-wk2", make_lasg_wk2}, Row{"clag", make_clag}};

Status check(const UploadRuleOptions& options) {
  const auto wrong = [](std::string_view what, auto value, std::string_view expected) {
    return fail(ErrorCode::bad_input, fmt::format("upload rule: {} is {}, but must be {}", what, value, expected));
  };
  if (!(options.skip_share >= 0.0 && options.skip_share < 1.0))
    return wrong("skip_share", options.skip_share, "in [0, 1)");
  if (options.age_max == 0) return wrong("age_max", options.age_max, "at least 1");
  if (!(options.c0 >= 0.0 && std::isfinite(options.c0))) return wrong("c0", options.c0, "finite and not negative");
  if (options.history == 0) return wrong("history", options.history, "at least 1");
  if (!(options.zeta >= 0.0 && std::isfinite(options.zeta)))
    return wrong("zeta", options.zeta, "finite and not negative");
  return {};
}

}  // namespace

Result<std::unique_ptr<UploadRule>> make_upload_rule(std::string_view name, const UploadRuleOptions& options) {
  GLEANER_TRY(check(options));
  for (const Row& row : kRows) {
    if (row.name == name) return row.make(options);
  }
  return fail(ErrorCode::bad_input,
              "unknown upload rule '" + std::string(name) + "': it is one of " + join_names(upload_rule_names()));
}

std::vector<std::string> upload_rule_names() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

float threshold_from(double x) {
  if (x >= static_cast<double>(std::numeric_limits<float>::max())) return std::numeric_limits<float>::max();
  const auto nearest = static_cast<float>(x);
  return static_cast<double>(nearest) > x ? std::nextafter(nearest, 0.0F) : nearest;
}

}  // namespace gleaner
