// The stored form: every setting explicit, under names of its own that never change. A setting that is added later gets
// a row whose absence means what releases before it did, and format stays; a change of meaning raises format.

#include <fmt/format.h>

#include "config/reading.hpp"
#include "coordinator/recipes/run_keys.hpp"
#include "coordinator/run_settings.hpp"

namespace gleaner {
namespace {

using config::Key;
using config::Kind;
using config::Need;

constexpr std::uint32_t kFormat = 1;

Key row(std::string name, Kind kind) {
  return {.name = std::move(name), .kind = std::move(kind), .description = {}, .need = Need::present};
}

// Every duration to the nanosecond, negative ones too.
Kind nanoseconds(Duration& into) {
  return config::integer_as({}, [&into](std::int64_t ns) { into = Duration(ns); }, [&into] { return into.count(); });
}

std::vector<Key> spec_rows(RunSpec& s) {
  return {row("id", config::bits(s.id.value)),
          row("name", config::text(s.name)),
          row("recipe", config::text(s.recipe)),
          row("seed", config::bits(s.seed)),
          row("reproducible", config::flag(s.reproducible)),
          row("data", config::text(s.data)),
          row("model", config::text(s.model)),
          row("hidden_units", config::integer(s.hidden_units)),
          row("schema_hash", config::bits(s.schema_hash)),
          row("dimension", config::integer(s.dimension)),
          row("local_epochs", config::integer(s.local_epochs)),
          row("batch_size", config::integer(s.batch_size)),
          row("learning_rate", config::number(s.learning_rate)),
          row("momentum", config::number(s.momentum)),
          row("weight_decay", config::number(s.weight_decay)),
          row("compressor", config::text(s.compressor)),
          row("per_tensor", config::flag(s.per_tensor)),
          row("value_format_up", config::text(s.value_format_up)),
          row("upload_rule", config::text(s.upload_rule)),
          row("skip_share", config::number(s.skip_share)),
          row("age_max", config::integer(s.age_max)),
          row("c0", config::number(s.c0)),
          row("rule_history", config::integer(s.rule_history)),
          row("zeta", config::number(s.zeta)),
          row("clip_exponent", config::integer(s.clip_exponent))};
}

std::vector<Key> planning_rows(PlannerSettings& p) {
  return {row("seed", config::bits(p.seed)),
          row("reproducible", config::flag(p.reproducible)),
          row("cohort_size", config::integer(p.cohort_size)),
          row("over_selection", config::number(p.over_selection)),
          row("quorum", config::number(p.quorum)),
          row("min_devices", config::integer(p.min_devices)),
          row("deadline_ns", nanoseconds(p.deadline)),
          row("dimension", config::integer(p.dimension)),
          row("density_up", config::number(p.density_up)),
          row("bytes_per_entry", config::number(p.bytes_per_entry)),
          row("uplink_bytes_per_round", config::bits(p.uplink_bytes_per_round)),
          row("local_epochs", config::integer(p.local_epochs)),
          row("batch_size", config::integer(p.batch_size))};
}

std::vector<Key> step_rows(ServerStepOptions& s) {
  return {row("optimizer", config::text(s.optimizer)),
          row("server_learning_rate", config::number(s.server_learning_rate)),
          row("server_momentum", config::number(s.server_momentum)),
          row("patch_entries_max", config::integer(s.patch_entries_max)),
          row("patch_values", config::choice(s.patch_values, value_format_names())),
          row("keep_residual", config::flag(s.keep_residual)),
          row("tracked", config::flag(s.tracked)),
          row("divisor", config::number(s.divisor))};
}

std::vector<Key> shape_rows(DatasetShape& s) {
  return {row("features", config::integer(s.features)), row("classes", config::integer(s.classes)),
          row("height", config::integer(s.height)), row("width", config::integer(s.width)),
          row("channels", config::integer(s.channels))};
}

std::vector<Key> run_rows(RunSettings& s) {
  return {row("rounds", config::integer(s.rounds)),
          row("planner", config::text(s.planner)),
          row("fixed_divisor", config::flag(s.fixed_divisor)),
          row("density_down", config::number(s.density_down)),
          row("staleness_max", config::integer(s.staleness_max)),
          row("evaluation_data", config::text(s.evaluation_data)),
          row("evaluate_every", config::integer(s.evaluate_every)),
          row("patches_kept", config::integer(s.patches_kept))};
}

struct StoredRun {
  std::uint32_t format = kFormat;
  RunSettings settings;
};

config::Schema stored_schema(StoredRun& stored) {
  RunSettings& s = stored.settings;
  return {{{"stored", "", {row("format", config::integer(stored.format, {kFormat, kFormat}))}},
           {"spec", "", spec_rows(s.spec)},
           {"shape", "", shape_rows(s.shape)},
           {"run", "", run_rows(s)},
           {"planning", "", planning_rows(s.planning)},
           {"step", "", step_rows(s.step)}}};
}

}  // namespace

std::string to_stored(const RunSettings& settings) {
  StoredRun stored{.settings = settings};
  std::string out;
  for (const config::Section& section : stored_schema(stored).sections) {
    out += fmt::format("[{}]\n", section.name);
    for (const Key& key : section.keys) out += fmt::format("{} = {}\n", key.name, key.kind.show());
  }
  return out;
}

Result<RunSettings> from_stored(const std::string& text) {
  StoredRun stored;
  config::Reading reading(text, "stored settings of a run");
  reading.bind(stored_schema(stored));
  if (const Status status = reading.status(); !status) return fail(ErrorCode::corrupt, status.error().message());
  stored.settings.spec.classes = stored.settings.shape.classes;  // one value, stored once
  return stored.settings;
}

}  // namespace gleaner
