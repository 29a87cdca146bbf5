#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "compression/codec/value_codec.hpp"
#include "compression/upload_rule.hpp"
#include "coordinator/recipes/run_keys.hpp"
#include "training/model.hpp"

namespace gleaner {
namespace {

struct KnownShape {
  std::string_view name;
  std::uint32_t height, width, channels, classes;
};

constexpr std::array<KnownShape, 2> kKnownShapes = {{{"mnist", 28, 28, 1, 10}, {"fashion-mnist", 28, 28, 1, 10}}};

void resolve_size(const std::string& key, std::uint32_t& size, std::uint32_t known, std::string_view data,
                  config::Reading& reading) {
  const bool given = reading.given(key) && reading.sound({key});
  if (known == 0) {
    if (!reading.given(key) && reading.complete()) {
      reading.mistake(key,
                      fmt::format("is missing, expected an integer, since the samples of data {} are not known", data));
    }
  } else if (given && size != known) {
    reading.mistake(key, fmt::format("is {}, expected {}, which is what samples of data {} have", size, known, data));
  } else if (!reading.given(key)) {
    size = known;
  }
}

void resolve_model(RunSettings& s, config::Reading& reading) {
  if (!reading.sound({"data.name"})) return;
  const auto known = std::ranges::find(kKnownShapes, s.spec.data, &KnownShape::name);
  const KnownShape sizes = known == kKnownShapes.end() ? KnownShape{} : *known;
  resolve_size("data.height", s.shape.height, sizes.height, s.spec.data, reading);
  resolve_size("data.width", s.shape.width, sizes.width, s.spec.data, reading);
  resolve_size("data.channels", s.shape.channels, sizes.channels, s.spec.data, reading);
  resolve_size("data.classes", s.shape.classes, sizes.classes, s.spec.data, reading);
  if (!reading.complete() || !reading.sound({"model.name", "model.hidden_units", "data.height", "data.width",
                                             "data.channels", "data.classes"})) {
    return;
  }
  const std::uint64_t area = std::uint64_t{s.shape.height} * s.shape.width;
  constexpr std::uint64_t kFeaturesMax = 1ULL << 24;
  if (area > kFeaturesMax || area * s.shape.channels > kFeaturesMax) {
    reading.mistake("data.height", fmt::format("height x width x channels is {} x {} x {}, expected at most {} values",
                                               s.shape.height, s.shape.width, s.shape.channels, kFeaturesMax));
    return;
  }
  s.shape.features = static_cast<std::uint32_t>(area * s.shape.channels);
  const auto model = model_spec(s.spec.model, s.shape, {.hidden = s.spec.hidden_units});
  if (!model) {
    reading.mistake(reading.given("model.hidden_units") ? "model.hidden_units" : "model.name", model.error().message());
    return;
  }
  s.spec.classes = s.shape.classes;
  s.spec.hidden_units = model->hidden;
  s.spec.dimension = static_cast<std::uint32_t>(parameter_count(*model));
  s.spec.schema_hash = schema_hash(*model);
}

void resolve_cohort(RunFile& file, config::Reading& reading) {
  PlannerSettings& p = file.settings.planning;
  if (reading.given("cohort.fraction_fit") && reading.sound({"cohort.fraction_fit"})) {
    if (reading.given("cohort.size")) {
      reading.mistake("cohort.fraction_fit", "stands beside cohort.size, which says the same as a number; remove it");
    } else if (file.fraction_fit < 1.0) {
      reading.mistake(
          "cohort.fraction_fit",
          fmt::format("is {}, expected 1, or size = {} times the number of your devices: a run's divisor is "
                      "fixed, so its cohort is a number",
                      file.fraction_fit, file.fraction_fit));
    }
  }
  if (!file.settings.spec.reproducible ||
      !reading.sound({"cohort.size", "cohort.min_devices", "cohort.fraction_fit"})) {
    return;
  }
  // The cohort of a reproducible run is the same whoever happens to be connected first: it waits for all of them.
  if (!reading.given("cohort.over_selection")) p.over_selection = 1.0;
  if (!reading.given("cohort.quorum")) p.quorum = 1.0;
  if (!reading.given("cohort.deadline")) p.deadline = Duration(0);
  if (p.cohort_size == 0 && reading.given("cohort.min_devices")) p.cohort_size = p.min_devices;
  if (p.cohort_size == 0) {
    if (reading.complete()) {
      reading.mistake("cohort.size",
                      "is 0 or missing, expected the number of devices: a reproducible run has the same "
                      "cohort in every round");
    }
  } else if (!reading.given("cohort.min_devices")) {
    p.min_devices = p.cohort_size;
  }
}

// A first estimate for the planner; later rounds measure it. Indices of sparse updates take about ten bits.
double bytes_per_entry(const RunSpec& spec) {
  constexpr std::uint64_t kMany = 1U << 20;
  const auto format = parse_value_format(spec.value_format_up);
  const double value = static_cast<double>(codec::value_bytes(format.value_or(ValueFormat::f32), kMany)) / kMany;
  return spec.compressor == "dense" ? value : value + 1.25;
}

}  // namespace

bool follows_tracked_state(std::string_view upload_rule) {
  const auto rule = make_upload_rule(upload_rule, {});
  return rule && (*rule)->memory() == MemoryKind::tracked;
}

void resolve_run(RunFile& file, config::Reading& reading) {
  RunSettings& s = file.settings;
  resolve_model(s, reading);
  resolve_cohort(file, reading);
  s.step.tracked = follows_tracked_state(s.spec.upload_rule);
  s.planning.seed = s.spec.seed;
  s.planning.reproducible = s.spec.reproducible;
  s.planning.dimension = s.spec.dimension;
  s.planning.local_epochs = s.spec.local_epochs;
  s.planning.batch_size = s.spec.batch_size;
  s.planning.bytes_per_entry = bytes_per_entry(s.spec);
  const auto kept = static_cast<std::uint32_t>(s.density_down * s.spec.dimension + 0.5);
  s.step.patch_entries_max = std::clamp<std::uint32_t>(kept, 1, std::max(1U, s.spec.dimension));
}

}  // namespace gleaner
