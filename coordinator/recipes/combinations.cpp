#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

#include "coordinator/recipes/run_keys.hpp"

namespace gleaner {
namespace {

struct OnlyWith {
  std::string_view key;    // has a meaning only when
  std::string_view other;  // this key
  std::string_view value;  // has this value
};

constexpr std::array<OnlyWith, 5> kOnlyWith = {{{"upload.skip_share", "upload.rule", "residual"},
                                                {"upload.c0", "upload.rule", "lasg-wk2"},
                                                {"upload.history", "upload.rule", "lasg-wk2"},
                                                {"upload.zeta", "upload.rule", "clag"},
                                                {"server.momentum", "server.optimizer", "momentum"}}};

void check_without_effect(const RunSettings& s, config::Reading& reading) {
  for (const OnlyWith& row : kOnlyWith) {
    const std::string key(row.key);
    const std::string other(row.other);
    const std::string& actual = other == "upload.rule" ? s.spec.upload_rule : s.step.optimizer;
    if (!reading.given(key) || !reading.sound({key, other, "run.recipe"}) || actual == row.value) continue;
    reading.mistake(key, fmt::format(R"(has no effect with {} = "{}", only with "{}"; remove one of them)", other,
                                     actual, row.value));
  }
  const bool knows_rule = reading.sound({"upload.rule", "run.recipe"});
  if (knows_rule && s.spec.upload_rule == "always" && reading.given("upload.age_max")) {
    reading.mistake("upload.age_max", R"(has no effect with upload.rule = "always", which is never silent; remove it)");
  }
}

void check_dense(const RunSettings& s, config::Reading& reading) {
  if (!reading.sound({"compression.compressor", "upload.rule", "run.recipe"}) || s.spec.compressor != "dense") return;
  const std::string remedy = R"(remove it, or set compression.compressor = "topk")";
  if (reading.given("compression.density") && s.planning.density_up < 1.0) {
    reading.mistake("compression.density",
                    "has no effect with the compressor dense, which sends every entry; " + remedy);
  }
  if (reading.given("compression.per_tensor") && s.spec.per_tensor) {
    reading.mistake("compression.per_tensor",
                    "has no effect with the compressor dense, which picks no entries; " + remedy);
  }
  if (s.spec.upload_rule == "clag") {
    reading.mistake("upload.rule",
                    "clag does not go with the compressor dense: it lets a compressed picture of the update follow the "
                    "true one, and a dense upload leaves nothing to follow; use lasg-wk2, or compressor topk");
  }
}

void check_topk(const RunSettings& s, config::Reading& reading) {
  if (!reading.sound({"compression.compressor", "compression.density", "run.recipe"})) return;
  if (s.spec.compressor == "dense" || reading.given("compression.density") || s.planning.density_up < 1.0) return;
  reading.mistake(
      "compression.density",
      fmt::format("is missing, expected a number above 0, below 1 with the compressor {}: the recipe {} sends "
                  "every entry",
                  s.spec.compressor, s.spec.recipe));
}

// Mass that comes later must be divided by what it would have been divided by in time.
void check_divisor(const RunSettings& s, config::Reading& reading) {
  if (s.fixed_divisor || !reading.sound({"server.divisor", "run.recipe"})) return;
  constexpr std::string_view kWhy =
      R"(what devices keep back would be divided by another weight than what they sent; set server.divisor = "fixed")";
  const auto blame = [&](const std::string& key, const std::string& value) {
    reading.mistake(reading.given("server.divisor") ? "server.divisor" : key,
                    fmt::format("the divisor is the weight that arrived, which does not go with {} = \"{}\": {}", key,
                                value, kWhy));
  };
  if (reading.sound({"compression.compressor"}) && s.spec.compressor != "dense") {
    blame("compression.compressor", s.spec.compressor);
  } else if (reading.sound({"upload.rule"}) && s.spec.upload_rule != "always") {
    blame("upload.rule", s.spec.upload_rule);
  }
}

void check_formats(const RunSettings& s, config::Reading& reading) {
  constexpr int kLargestPowerInF16 = 15;
  if (reading.sound({"compression.value_format", "compression.clip_exponent"}) && s.spec.value_format_up == "f16" &&
      s.spec.clip_exponent > kLargestPowerInF16) {
    reading.mistake("compression.clip_exponent",
                    fmt::format("is {}, expected at most {} with the value format f16, which holds nothing larger",
                                s.spec.clip_exponent, kLargestPowerInF16));
  }
  if (reading.sound({"compression.value_format", "compression.compressor"}) && s.spec.value_format_up == "sign" &&
      s.spec.compressor == "dense") {
    reading.mistake("compression.value_format",
                    "is sign, expected another one with the compressor dense: a scaled sign says nothing of entries "
                    "that differ in size, take ternary");
  }
}

void check_cohort(const RunSettings& s, config::Reading& reading) {
  const PlannerSettings& p = s.planning;
  if (reading.sound({"cohort.size", "cohort.min_devices"}) && p.cohort_size != 0 && p.min_devices > p.cohort_size) {
    reading.mistake("cohort.min_devices",
                    fmt::format("is {}, expected at most cohort.size, which is {}", p.min_devices, p.cohort_size));
  }
  if (reading.sound({"cohort.planner", "cohort.uplink_bytes_per_round"}) && s.planner == "uniform" &&
      p.uplink_bytes_per_round != 0) {
    reading.mistake("cohort.uplink_bytes_per_round",
                    R"(has no effect with cohort.planner = "uniform", only with "joint"; remove one of them)");
  }
  if (!s.spec.reproducible) return;
  const std::string reason = "does not go with run.reproducible, where everybody answers in every round; ";
  if (reading.sound({"cohort.size", "cohort.min_devices"}) && p.min_devices < p.cohort_size) {
    reading.mistake("cohort.min_devices", fmt::format("{}expected {}, the size of the cohort", reason, p.cohort_size));
  }
  if (p.over_selection != 1.0) reading.mistake("cohort.over_selection", reason + "expected 1");
  if (p.quorum != 1.0) reading.mistake("cohort.quorum", reason + "expected 1");
  if (p.deadline != Duration(0)) reading.mistake("cohort.deadline", reason + R"(expected "0s")");
  if (p.uplink_bytes_per_round != 0) {
    reading.mistake("cohort.uplink_bytes_per_round",
                    "does not go with run.reproducible, where nobody's share follows measurements; remove it");
  }
}

}  // namespace

void check_combinations(const RunSettings& settings, config::Reading& reading) {
  check_without_effect(settings, reading);
  check_dense(settings, reading);
  check_topk(settings, reading);
  check_divisor(settings, reading);
  check_formats(settings, reading);
  check_cohort(settings, reading);
}

void check_evaluation(config::Reading& reading) {
  if (reading.given("evaluation.every") && !reading.given("data.evaluation")) {
    reading.mistake("evaluation.every",
                    "has no effect without data.evaluation, the directory with the test set; add it");
  }
}

}  // namespace gleaner
