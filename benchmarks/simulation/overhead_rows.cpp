#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <numeric>

#include "benchmarks/simulation/rows.hpp"
#include "common/check.hpp"
#include "common/log.hpp"
#include "coordinator/engine/model_owner.hpp"
#include "simulation/stage.hpp"

namespace gleaner::bench {
namespace {

namespace sim = gleaner::simulation;

constexpr std::uint32_t kDevices = 50;

struct Task {
  const char* model;
  std::uint32_t samples;  // of a device: 60,000 over 100 devices, less for the slow model
  std::uint32_t rounds;
  double target;
};
constexpr Task kTasks[] = {{"mlp", 600, 3, 1.25}, {"lenet", 200, 2, 1.10}};

std::string file_of(const Task& task) {
  return fmt::format(
      "[run]\nname = \"overhead\"\nrecipe = \"gsasg\"\nreproducible = true\nrounds = {}\nseed = 1\n[model]\nname = "
      "\"{}\"\n[data]\nname = \"fashion-mnist\"\n[training]\nlearning_rate = 0.05\nbatch_size = 32\n[cohort]\nsize = "
      "{}\nmin_devices = {}\n[population]\ndevices = {}\nsynthetic_samples = {}\n",
      task.rounds, task.model, kDevices, kDevices, kDevices, kDevices * task.samples);
}

class Bed {
 public:
  explicit Bed(const Task& task) : task_(task) {
    auto experiment = sim::parse_experiment(file_of(task), "overhead.toml");
    if (!experiment) throw std::runtime_error(experiment.error().message());
    auto stage = sim::Stage::set(std::move(*experiment));
    if (!stage) throw std::runtime_error(stage.error().message());
    stage_ = std::move(*stage);
    model_ = *model_of(stage_->experiment().run);
    parameters_ = initial_parameters(model_, 1);
    for (std::uint32_t device = 0; device < kDevices; ++device)
      samples_.push_back(stage_->data().all().partition->samples_of(device));
  }

  void simulate() {
    std::string folder = (std::filesystem::temp_directory_path() / "gleaner-overhead-XXXXXX").string();
    GLEANER_CHECK(::mkdtemp(folder.data()) != nullptr);
    auto needs = stage_->needs(folder);
    needs.evaluation = nullptr;
    auto federation = sim::Federation::create(std::move(needs));
    GLEANER_CHECK(federation.has_value());
    const std::atomic<bool> never = false;
    GLEANER_CHECK((*federation)->run(never).has_value());
    federation->reset();
    std::filesystem::remove_all(folder);
  }

  void train() {
    for (std::uint32_t round = 1; round <= task_.rounds; ++round) {
      std::vector<CohortTurn> turns;
      for (std::uint32_t device = 0; device < kDevices; ++device) {
        turns.push_back({.samples = samples_[device],
                         .parameters = parameters_,
                         .work = {.epochs = 1, .batch_size = 32, .learning_rate = 0.05F},
                         .turn = {.seed = 1, .round = round, .device = device}});
      }
      train_cohort(stage_->pool(), model_, stage_->data().all().train, turns,
                   [](std::size_t, const Result<LocalResult>& result) { GLEANER_CHECK(result.has_value()); });
    }
  }

  unsigned threads() { return stage_->pool().threads(); }

 private:
  const Task& task_;
  std::unique_ptr<sim::Stage> stage_;
  ModelSpec model_;
  std::vector<float> parameters_;
  std::vector<std::vector<std::uint32_t>> samples_;
};

}  // namespace

void measure_overhead(int turns, KernelRows& rows) {
  for (const Task& task : kTasks) {
    Bed bed(task);
    const auto times = take_turns({{[&] { bed.simulate(); }, {}}, {[&] { bed.train(); }, {}}}, turns);
    const double images = double{kDevices} * task.samples * task.rounds;
    rows.push_back({.name = fmt::format("simulate_{}", task.model),
                    .text = fmt::format("times the bare training of the same samples: {} rounds of {} devices with {} "
                                        "samples, {}, {} threads",
                                        task.rounds, kDevices, task.samples, task.model, bed.threads()),
                    .value = median_ratio(times[0], times[1]),
                    .limit = Limit::at_most,
                    .target = task.target,
                    .beside = {{"simulation", median(times[0]), "ms"},
                               {"training", median(times[1]), "ms"},
                               {"simulated", images / median(times[0]) * 1000.0, "images/s"}},
                    .open = {}});
  }
}

}  // namespace gleaner::bench
