#include "simulation/experiment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/text.hpp"
#include "config/reading.hpp"
#include "config/reference.hpp"
#include "simulation/experiment_keys.hpp"
#include "training/named_data.hpp"

namespace gleaner::simulation {
namespace {

// The lines of a stored form by key; the heading of a section stands in front of it.
std::map<std::string, std::string> stored_lines(std::string_view text) {
  std::map<std::string, std::string> lines;
  std::string section;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with('[') && line.ends_with(']')) {
      section = line.substr(1, line.size() - 2);
    } else if (const auto sign = line.find(" = "); sign != std::string_view::npos) {
      lines[section + "." + std::string(line.substr(0, sign))] = line.substr(sign + 3);
    }
  }
  return lines;
}

std::string show_section(const std::string& name, const std::vector<config::Key>& keys) {
  std::string out = fmt::format("[{}]\n", name);
  for (const config::Key& key : keys) out += fmt::format("{} = {}\n", key.name, key.kind.show());
  return out;
}

}  // namespace

bool Experiment::is_synthetic() const {
  return population.data == kSyntheticData || run.spec.data.starts_with(kSyntheticPrefix);
}

std::string Experiment::data_label() const {
  if (!is_synthetic() || run.spec.data.starts_with(kSyntheticPrefix)) return run.spec.data;
  return std::string(kSyntheticPrefix) + run.spec.data;
}

Result<Experiment> parse_experiment(const std::string& toml_text, const std::string& path) {
  config::Reading reading(toml_text, path);
  ExperimentFile file{.run = run_file_with_defaults(reading), .experiment = {}, .classes = {}};
  reading.bind(whole_schema(file));
  resolve_run(file.run, reading);
  check_combinations(file.run.settings, reading);
  Experiment& experiment = file.experiment;
  experiment.run = file.run.settings;
  experiment.devices.classes.assign(file.classes.begin(), file.classes.end());
  check_experiment(experiment, reading);
  GLEANER_TRY(reading.status());
  return std::move(experiment);
}

Result<Experiment> load_experiment(const std::string& path) {
  GLEANER_ASSIGN(const std::string text, config::read_file(path));
  return parse_experiment(text, path);
}

std::string to_stored(const Experiment& experiment) {
  ExperimentFile file{.run = {.settings = experiment.run}, .experiment = experiment, .classes = {}};
  std::string out;
  for (const config::Section& section : whole_schema(file).sections) {
    if (section.name != kMachineSection) out += show_section(section.name, section.keys);
  }
  const config::Schema schema = own_schema(file);
  for (const DeviceClass& one : experiment.devices.classes) {
    const auto keys = schema.named.front().keys(one.name);
    file.classes.back() = one;
    out += show_section("classes." + one.name, keys);
  }
  return out;
}

Status check_resume(const Experiment& experiment, const std::string& stored) {
  const auto now = stored_lines(to_stored(experiment));
  const auto then = stored_lines(stored);
  std::vector<std::string> differing;
  for (const auto& [key, value] : now) {
    const auto at = then.find(key);
    if (at == then.end()) {
      differing.push_back(fmt::format("{} is {} and was not there", key, value));
    } else if (at->second != value) {
      differing.push_back(fmt::format("{} is {} and was {}", key, value, at->second));
    }
  }
  for (const auto& [key, value] : then) {
    if (!now.contains(key)) differing.push_back(fmt::format("{} is not there and was {}", key, value));
  }
  if (differing.empty()) return {};
  return fail(ErrorCode::bad_input,
              fmt::format("cannot go on with another configuration: {}; resume with the file that it began with, or "
                          "begin again in another output directory",
                          join_names(differing)));
}

std::string experiment_reference() {
  ExperimentFile file;
  return config::to_markdown(own_schema(file), "##");
}

}  // namespace gleaner::simulation
