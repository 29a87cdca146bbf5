#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "config/units.hpp"
#include "simulation/experiment_keys.hpp"
#include "training/named_data.hpp"

namespace gleaner::simulation {
namespace {

struct OnlyWith {
  std::string_view key;    // has a meaning only when
  std::string_view other;  // this key
  std::string_view value;  // has this value
};

constexpr std::array<OnlyWith, 12> kOnlyWith = {{{"population.alpha", "population.partition", "dirichlet"},
                                                 {"population.shards_per_device", "population.partition", "shards"},
                                                 {"population.size_sigma", "population.partition", "quantity"},
                                                 {"population.synthetic_samples", "population.data", "synthetic"},
                                                 {"devices.samples_per_s", "devices.profile", "constant"},
                                                 {"devices.uplink_kbit_per_s", "devices.profile", "constant"},
                                                 {"devices.downlink_kbit_per_s", "devices.profile", "constant"},
                                                 {"devices.period", "devices.availability", "periodic"},
                                                 {"devices.on_share", "devices.availability", "periodic"},
                                                 {"devices.mean_on", "devices.availability", "exponential"},
                                                 {"devices.mean_off", "devices.availability", "exponential"},
                                                 {"devices.availability_file", "devices.availability", "fedscale"}}};

const std::string& value_of(std::string_view key, const Experiment& e) {
  if (key == "population.partition") return e.population.partition;
  if (key == "population.data") return e.population.data;
  return key == "devices.profile" ? e.devices.profile : e.devices.availability;
}

void check_without_effect(const Experiment& e, config::Reading& reading) {
  for (const OnlyWith& row : kOnlyWith) {
    const std::string key(row.key);
    const std::string other(row.other);
    const std::string& actual = value_of(other, e);
    if (!reading.given(key) || !reading.sound({key, other}) || actual == row.value) continue;
    reading.mistake(key, fmt::format(R"(has no effect with {} = "{}", only with "{}"; remove one of them)", other,
                                     actual, row.value));
  }
}

void need_file(const std::string& key, const std::string& other, const std::string& value, config::Reading& reading) {
  if (reading.given(key) || !reading.complete() || !reading.sound({other, key})) return;
  reading.mistake(key, fmt::format(R"(is missing, expected the path of a file for {} = "{}")", other, value));
}

void check_devices(const Experiment& e, config::Reading& reading) {
  const std::string& profile = e.devices.profile;
  if (profile == "csv" || profile == "fedscale") {
    need_file("devices.file", "devices.profile", profile, reading);
  } else if (reading.given("devices.file") && reading.sound({"devices.file", "devices.profile"})) {
    reading.mistake(
        "devices.file",
        fmt::format(R"(has no effect with devices.profile = "{}", only with "csv" or "fedscale"; remove one )"
                    "of them",
                    profile));
  }
  if (e.devices.availability == "fedscale") {
    need_file("devices.availability_file", "devices.availability", "fedscale", reading);
  }
  if (!reading.sound({"devices.profile", "classes"}) || !reading.complete()) return;
  if (profile == "lognormal" && e.devices.classes.empty()) {
    reading.mistake("devices.profile", "is lognormal, expected at least one section [classes.NAME] with it");
  }
  if (profile != "lognormal" && !e.devices.classes.empty()) {
    reading.mistake("classes",
                    fmt::format(R"(has no effect with devices.profile = "{}", only with "lognormal"; remove )"
                                "one of them",
                                profile));
  }
}

void check_population(const Experiment& e, config::Reading& reading) {
  const Population& p = e.population;
  const PlannerSettings& plan = e.run.planning;
  if (reading.sound({"population.devices", "cohort.size", "cohort.min_devices"})) {
    const bool by_size = plan.cohort_size > p.devices;
    if (by_size || plan.min_devices > p.devices) {
      reading.mistake("population.devices", fmt::format("is {}, expected at least {}, which is {}", p.devices,
                                                        by_size ? "cohort.size" : "cohort.min_devices",
                                                        by_size ? plan.cohort_size : plan.min_devices));
    }
  }
  if (p.samples_per_device != 0 &&
      reading.sound({"population.samples_per_device", "population.min_samples", "population.partition"})) {
    if (p.partition == "natural") {
      reading.mistake("population.samples_per_device",
                      "has no effect with population.partition = \"natural\", where users have their own samples; "
                      "remove one of them");
    } else if (p.samples_per_device < p.min_samples) {
      reading.mistake("population.samples_per_device",
                      fmt::format("is {}, expected at least population.min_samples, which is {}", p.samples_per_device,
                                  p.min_samples));
    }
  }
  if (p.data != kSyntheticData && e.run.spec.data.starts_with(kSyntheticPrefix) && reading.sound({"population.data"})) {
    reading.mistake("population.data",
                    fmt::format("is {}, expected \"synthetic\", since data.name is {}", p.data, e.run.spec.data));
  }
}

void check_budgets(const Experiment& e, config::Reading& reading) {
  const std::uint64_t model_bytes = std::uint64_t{e.run.spec.dimension} * sizeof(float);
  const bool keeps_residual = e.run.spec.compressor != "dense";
  if (model_bytes == 0) return;  // the model has a mistake of its own
  if (keeps_residual && reading.sound({"simulation.residual_budget"}) && e.residual_budget_bytes < model_bytes) {
    reading.mistake("simulation.residual_budget",
                    fmt::format("is {}, expected at least {}: what one device keeps back takes 4 bytes for each of {} "
                                "parameters",
                                config::format_byte_size(e.residual_budget_bytes),
                                config::format_byte_size(model_bytes), e.run.spec.dimension));
  }
  const PlannerSettings& plan = e.run.planning;
  if (plan.uplink_bytes_per_round == 0 || e.run.planner == "uniform" || e.run.spec.reproducible ||
      !reading.sound({"cohort.uplink_bytes_per_round", "cohort.size", "cohort.over_selection", "population.devices"})) {
    return;
  }
  const std::uint32_t cohort = plan.cohort_size == 0 ? e.population.devices : plan.cohort_size;
  const double devices = std::ceil(cohort * plan.over_selection);
  const double least = std::ceil(devices * plan.bytes_per_entry);
  if (static_cast<double>(plan.uplink_bytes_per_round) < least) {
    reading.mistake(
        "cohort.uplink_bytes_per_round",
        fmt::format("is {}, expected at least {:.0f}B: one entry of each of {:.0f} devices takes {} bytes",
                    config::format_byte_size(plan.uplink_bytes_per_round), least, devices, plan.bytes_per_entry));
  }
}

}  // namespace

void check_experiment(const Experiment& experiment, config::Reading& reading) {
  check_without_effect(experiment, reading);
  check_devices(experiment, reading);
  check_population(experiment, reading);
  check_budgets(experiment, reading);
}

Status check_deadline(const Experiment& experiment, const Devices& devices) {
  const PlannerSettings& plan = experiment.run.planning;
  if (plan.deadline == Duration::zero()) return {};
  constexpr std::uint32_t kLookedAt = 1'000;
  // Less than any update: what a message takes around its payload.
  constexpr std::uint64_t kSmallestUpdateBytes = 64;
  const std::uint32_t count = experiment.population.devices;
  const std::uint32_t step = std::max(1U, count / kLookedAt);
  Duration fastest = Duration::max();
  for (std::uint32_t device = 0; device < count; device += step) {
    DeviceTraits traits = devices.traits(device);
    traits.loss = 0.0;
    traits.jitter = 0.0;
    const Duration time =
        compute_time(traits, 1) + transfer_time(traits, kSmallestUpdateBytes, Direction::up, {.device = device});
    fastest = std::min(fastest, time);
    if (fastest <= plan.deadline) return {};
  }
  return fail(ErrorCode::bad_input,
              fmt::format("cohort.deadline is {}, but the fastest of {} devices takes {:.3g} s to train one sample and "
                          "send one entry: give a longer deadline, or faster devices in [devices]",
                          config::format_duration(plan.deadline), count, to_seconds(fastest)));
}

Status check_samples(const Experiment& experiment, std::uint32_t samples_of_data) {
  const Population& p = experiment.population;
  const std::string label = experiment.data_label();
  if (samples_of_data == 0) return fail(ErrorCode::bad_input, fmt::format("the data {} has no samples", label));
  if (p.samples_per_device != 0) {
    if (p.min_samples <= samples_of_data) return {};
    return fail(ErrorCode::bad_input, fmt::format("population.min_samples is {}, but the data {} has {} samples",
                                                  p.min_samples, label, samples_of_data));
  }
  const std::uint64_t wanted = std::uint64_t{p.devices} * p.min_samples;
  if (p.partition == "natural" || wanted <= samples_of_data) return {};
  return fail(ErrorCode::bad_input,
              fmt::format("population.devices is {} with at least {} samples each, but the data {} has {}: take fewer "
                          "devices, or set population.samples_per_device so that devices may share samples",
                          p.devices, p.min_samples, label, samples_of_data));
}

}  // namespace gleaner::simulation
