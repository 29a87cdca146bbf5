#pragma once
// A small experiment in a folder of its own: patterns of 8 x 8 pixels, a softmax, devices that are all alike.

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "client/engine/device_run.hpp"
#include "simulation/world/federation.hpp"
#include "training/synthetic.hpp"

namespace gleaner::simulation {

class AlikeDevices final : public Devices {
 public:
  explicit AlikeDevices(DeviceTraits traits = {.samples_per_s = 100.0,
                                               .uplink_bytes_per_s = 100'000.0,
                                               .downlink_bytes_per_s = 400'000.0,
                                               .latency = std::chrono::milliseconds(20),
                                               .jitter = 0.2})
      : traits_(traits) {}
  DeviceTraits traits(std::uint32_t device) const override {
    DeviceTraits traits = traits_;
    traits.samples_per_s *= 1.0 + device % 5;
    return traits;
  }
  // Every third of them is away half of the time, when the test wants that.
  Availability availability(std::uint32_t device, Instant t) const override {
    if (period == Duration{} || device % 3 != 0) return {};
    const auto half = t.since_start / period;
    return {.reachable = half % 2 == 0, .until = Instant{period * (half + 1)}};
  }
  Duration period{};

 private:
  DeviceTraits traits_;
};

class Patterns final : public SampleSource {
 public:
  explicit Patterns(std::uint32_t devices) {
    for (std::uint32_t device = 0; device < devices; ++device) {
      samples_.push_back(std::make_shared<const Dataset>(
          synthetic_dataset({.samples = 40 + 8 * (device % 7), .classes = 4, .height = 8, .width = 8, .noise = 120},
                            {.pattern = 1, .noise = 10 + device})));
    }
  }
  std::uint32_t count_of(std::uint32_t device) const override { return samples_[device]->samples; }
  std::shared_ptr<const Dataset> samples_of(std::uint32_t device) const override { return samples_[device]; }
  const DatasetShape& shape() const override { return *samples_.front(); }

 private:
  std::vector<std::shared_ptr<const Dataset>> samples_;
};

class Folder {
 public:
  Folder() {
    std::string path = (std::filesystem::temp_directory_path() / "gleaner-simulation-XXXXXX").string();
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    path_ = path;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ec;
    std::filesystem::remove_all(path_, ec);
  }
  std::string path() const { return path_; }

 private:
  std::string path_;
};

struct BedSpec {
  std::string recipe = "gsasg";
  std::uint32_t devices = 9;
  std::uint32_t rounds = 10;
  bool reproducible = true;
  std::string more;  // keys of the run, [cohort] is open
  std::uint32_t cohort = 0;
  Faults faults;
  unsigned threads = 2;
  std::uint32_t checkpoint_every = 0;
  std::uint64_t budget_bytes = 64U << 20;
  Duration away{};
  bool greets_frame_by_frame = false;
};

// What an experiment ends with; records without their real seconds.
struct Ending {
  std::uint64_t hash = 0;
  std::vector<RoundRecord> records;
  std::vector<Bytes> states;
  std::uint64_t crashes = 0;
  std::string error;

  friend bool operator==(const Ending& a, const Ending& b) {
    return a.hash == b.hash && a.records == b.records && a.states == b.states && a.error == b.error;
  }
};

class Bed {
 public:
  explicit Bed(BedSpec spec) : spec_(std::move(spec)), data_(spec_.devices), pool_(spec_.threads) {
    devices_.period = spec_.away;
    const std::uint32_t cohort = spec_.cohort == 0 ? spec_.devices : spec_.cohort;
    const std::string toml = fmt::format(
        "[run]\nname = \"bed\"\nrecipe = \"{}\"\nrounds = {}\nseed = 3\nreproducible = {}\n[model]\nname = "
        "\"softmax\"\n[data]\nname = \"patterns\"\nheight = 8\nwidth = 8\nchannels = 1\nclasses = 4\n"
        "[training]\nlearning_rate = 0.05\nbatch_size = 16\n[cohort]\nsize = {}\nmin_devices = {}\n{}",
        spec_.recipe, spec_.rounds, spec_.reproducible, cohort, spec_.reproducible ? spec_.devices : 2, spec_.more);
    auto run = parse_run_settings(toml, "bed.toml");
    if (!run) throw std::runtime_error(run.error().message());
    experiment_.run = std::move(*run);
    experiment_.population.devices = spec_.devices;
    experiment_.faults = spec_.faults;
    experiment_.residual_budget_bytes = spec_.budget_bytes;
    evaluation_ = std::make_shared<const Dataset>(synthetic_dataset(
        {.samples = 200, .classes = 4, .height = 8, .width = 8, .noise = 120}, {.pattern = 1, .noise = 9}));
  }

  Federation::Needs needs(std::vector<RoundRecord>& records) {
    Federation::Needs needs{.experiment = &experiment_,
                            .devices = &devices_,
                            .data = other_data != nullptr ? other_data : &data_,
                            .evaluation = evaluation_,
                            .pool = &pool_,
                            .kernels = *kernels_for(Backend::cpu),
                            .folder = folder_.path(),
                            .checkpoint_every = spec_.checkpoint_every,
                            .waves = waves,
                            .greets_frame_by_frame = spec_.greets_frame_by_frame};
    needs.on_round = [&records, this](const RoundRecord& record) -> Status {
      if (record.round == full_at) return fail(ErrorCode::no_space, "no room for the line");
      records.push_back(record);
      records.back().real_s = 0.0;
      if (record.round == stop_at) stop = true;
      if (after_round) after_round(record.round);
      return {};
    };
    return needs;
  }

  Ending run() { return end(Federation::create(needs(records_))); }
  Ending resume() {
    stop = false;
    return end(Federation::resume(needs(records_)));
  }

  std::uint32_t stop_at = 0;
  std::uint32_t full_at = 0;                 // the round whose line finds no room
  const SampleSource* other_data = nullptr;  // in the place of the patterns
  WaveTrainer* waves = nullptr;
  std::function<void(std::uint32_t)> after_round;
  std::atomic<bool> stop = false;
  std::string folder() const { return folder_.path(); }
  Experiment& experiment() { return experiment_; }
  std::vector<RoundRecord>& records() { return records_; }

 private:
  Ending end(Result<std::unique_ptr<Federation>> made) {
    Ending outcome;
    if (!made) {
      outcome.error = made.error().message();
      return outcome;
    }
    Federation& federation = **made;
    const auto ended = federation.run(stop);
    outcome.records = records_;
    outcome.crashes = federation.crashes();
    if (!ended) {
      outcome.error = ended.error().message();
      return outcome;
    }
    outcome.hash = federation.status().row.model_hash;
    for (std::uint32_t device = 0; device < spec_.devices; ++device) {
      const auto state = federation.states().load(device);
      EXPECT_TRUE(state.has_value());
      outcome.states.push_back(*state ? **state : Bytes{});
    }
    const Status sound = federation.database().check();
    EXPECT_TRUE(sound.has_value()) << sound.error().message();
    return outcome;
  }

  BedSpec spec_;
  Folder folder_;
  AlikeDevices devices_;
  Patterns data_;
  std::shared_ptr<const Dataset> evaluation_;
  WorkerPool pool_;
  Experiment experiment_;
  std::vector<RoundRecord> records_;
};

}  // namespace gleaner::simulation
