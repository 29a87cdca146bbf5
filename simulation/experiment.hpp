#pragma once
// One file describes an experiment: the keys of a run's file (coordinator/run_settings.hpp) and the simulator's own
// sections beside them. docs/simulation-configuration.md is printed from the same tables that it is read with.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.hpp"
#include "common/error.hpp"
#include "coordinator/run_settings.hpp"
#include "simulation/devices/devices.hpp"

namespace gleaner::simulation {

// Instead of a directory in population.data.
inline constexpr std::string_view kSyntheticData = "synthetic";  // a stand-in of the data set's shape, labelled so
inline constexpr std::string_view kInstalledData = "installed";  // where the data set of that name usually lies

struct Population {
  std::uint32_t devices = 100;
  std::string data{kSyntheticData};      // one of the words above, or an absolute directory
  std::uint32_t synthetic_samples = 0;   // of the stand-in's training set; 0: as many as the real one has
  std::string partition = "iid";         // by name of training/partition.hpp
  double alpha = 0.5;                    // dirichlet
  std::uint32_t shards_per_device = 2;   // shards
  double size_sigma = 1.0;               // quantity: of the log-normal sizes
  std::uint32_t min_samples = 1;         // of every device
  std::uint64_t split_seed = 0;          // of the partition, as in a device's file; 0: the run's seed
  std::uint32_t samples_per_device = 0;  // 0: all samples are shared out; else each draws so many of its own
};

// Chances of what goes wrong; all 0 is a world without faults. Drawn from run.seed unless seed is given.
struct Faults {
  std::uint64_t seed = 0;            // 0: run.seed
  double drops = 0.0;                // per message: it is lost, and the connection with it
  double delays = 0.0;               // per message: it comes later, by up to delay_max
  double duplicates = 0.0;           // per message: it comes twice
  double reorders = 0.0;             // per message: the next one overtakes it
  double device_crashes = 0.0;       // per plan: the device dies at some step, and comes back from its storage
  double coordinator_crashes = 0.0;  // per round: it dies at some step, and recovers from its database
  double full_disks = 0.0;           // per write: there is no space, for up to full_disk_max
  double network_cuts = 0.0;         // per round: half of the devices cannot be reached, for up to network_cut_max
  double slow_readers = 0.0;         // share of the devices that read at a hundredth of their downlink
  Duration delay_max = std::chrono::seconds(10);
  Duration full_disk_max = std::chrono::minutes(1);
  Duration network_cut_max = std::chrono::minutes(2);

  bool any() const;
};

// "none", "light", "heavy": for `--faults LEVEL`. Errors (bad_input): unknown level, lists them.
Result<Faults> faults_of_level(std::string_view level);

struct Experiment {
  RunSettings run;
  Population population;
  DeviceSettings devices;
  Faults faults;
  std::uint32_t threads = 0;                         // 0: one a core; changes no result
  std::uint64_t residual_budget_bytes = 512U << 20;  // what is beyond goes to a file; changes no result
  std::uint32_t checkpoint_every = 50;               // rounds; 0: never
  std::string backend = "auto";                      // kernels
  Duration time_limit{};                             // virtual; 0: none
  std::string output;                                // directory, absolute; "" until --output gives one

  bool is_synthetic() const;
  // The data set's name for people and outputs: "cifar10", "synthetic-cifar10".
  std::string data_label() const;
};

// From the file's text: all mistakes at once, each with file, line, key, what was expected and the nearest known key,
// those of the run's keys among them. path is for messages, and relative paths are relative to its folder.
Result<Experiment> parse_experiment(const std::string& toml_text, const std::string& path);
Result<Experiment> load_experiment(const std::string& path);

// After the devices are made: an error when not one of those looked at can train a step and send one entry within the
// deadline. Reproducible runs have none.
Status check_deadline(const Experiment& experiment, const Devices& devices);

// After the data is loaded: an error when there are not enough samples for every device.
Status check_samples(const Experiment& experiment, std::uint32_t samples_of_data);

// Every setting that a result depends on, as lines of TOML, resolved. Kept with an experiment's state, so that it goes
// on under the same settings only: check_resume names the keys that differ (bad_input).
std::string to_stored(const Experiment& experiment);
Status check_resume(const Experiment& experiment, const std::string& stored);

// The file's keys as Markdown: the simulator's own sections.
std::string experiment_reference();

}  // namespace gleaner::simulation
