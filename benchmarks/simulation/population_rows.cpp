// Simulations with many enrolled devices, each in a process of its own, so that its memory can be told.

#include <fmt/format.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "benchmarks/simulation/rows.hpp"
#include "common/check.hpp"
#include "common/log.hpp"
#include "simulation/stage.hpp"

namespace gleaner::bench {
namespace {

namespace sim = gleaner::simulation;

constexpr std::uint32_t kMany = 1'000'000;
constexpr std::uint32_t kFewer = 100'000;
constexpr std::uint32_t kCohort = 1'000;

struct Told {
  double seconds = 0.0;        // from nothing to the end of the first round
  double peak_bytes = 0.0;     // of the whole process
  double settled_bytes = 0.0;  // after the first round, what is free given back
};

std::string file_of(std::uint32_t devices) {
  return fmt::format(
      "[run]\nname = \"million\"\nrecipe = \"gsasg\"\nrounds = 2\nseed = 1\n[model]\nname = \"softmax\"\n[data]\nname "
      "= "
      "\"fashion-mnist\"\n[training]\nbatch_size = 10\n[cohort]\nsize = {0}\nmin_devices = {0}\nquorum = 0.9\ndeadline "
      "= \"3m\"\n[population]\ndevices = {1}\nsynthetic_samples = 60000\nsamples_per_device = 10\n[evaluation]\nevery "
      "= "
      "1000\n",
      kCohort, devices);
}

double status_bytes(std::string_view key) {
  std::ifstream file("/proc/self/status");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with(key)) return std::stod(line.substr(key.size() + 1)) * 1024.0;
  }
  return 0.0;
}

Told simulate(std::uint32_t devices) {
  Told told;
  const Instant began = system_clock().now();
  auto experiment = sim::parse_experiment(file_of(devices), "million.toml");
  GLEANER_CHECK(experiment.has_value());
  auto stage = sim::Stage::set(std::move(*experiment));
  GLEANER_CHECK(stage.has_value());
  std::string folder = (std::filesystem::temp_directory_path() / "gleaner-million-XXXXXX").string();
  GLEANER_CHECK(::mkdtemp(folder.data()) != nullptr);
  {
    auto needs = (*stage)->needs(folder);
    needs.evaluation = nullptr;
    needs.on_round = [&](const sim::RoundRecord& record) -> Status {
      if (record.round == 1) {
        told.seconds = to_seconds(system_clock().now() - began);
        told.peak_bytes = status_bytes("VmHWM:");
        ::malloc_trim(0);
        told.settled_bytes = status_bytes("VmRSS:");
      }
      return {};
    };
    auto federation = sim::Federation::create(std::move(needs));
    GLEANER_CHECK(federation.has_value());
    const std::atomic<bool> never = false;
    GLEANER_CHECK((*federation)->run(never).has_value());
  }
  std::filesystem::remove_all(folder);
  return told;
}

Told in_a_child(std::uint32_t devices) {
  int ends[2];
  GLEANER_CHECK(::pipe(ends) == 0);
  const pid_t child = ::fork();
  GLEANER_CHECK(child >= 0);
  if (child == 0) {
    const Told told = simulate(devices);
    const bool written = ::write(ends[1], &told, sizeof told) == sizeof told;
    std::_Exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  Told told;
  const bool whole = ::read(ends[0], &told, sizeof told) == sizeof told;
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!whole || status != 0) throw std::runtime_error(fmt::format("the simulation of {} devices failed", devices));
  return told;
}

}  // namespace

void measure_population(KernelRows& rows) {
  const Told fewer = in_a_child(kFewer);
  const Told many = in_a_child(kMany);
  const std::string what =
      fmt::format("{} enrolled devices, softmax, {} a round, to the end of the first round", kMany, kCohort);
  rows.push_back({.name = "million_seconds",
                  .text = "seconds for " + what,
                  .value = many.seconds,
                  .limit = Limit::at_most,
                  .target = 10.0,
                  .beside = {{"a tenth of the devices", fewer.seconds, "s"}},
                  .open = {}});
  rows.push_back({.name = "million_memory",
                  .text = "MiB at most in use, " + what,
                  .value = many.peak_bytes / (1 << 20),
                  .limit = Limit::at_most,
                  .target = 1024.0,
                  .beside = {{"a tenth of the devices", fewer.peak_bytes / (1 << 20), "MiB"}},
                  .open = {}});
  rows.push_back({.name = "device_memory",
                  .text = "bytes a device that never took part, between 100,000 and 1,000,000 of them",
                  .value = (many.settled_bytes - fewer.settled_bytes) / (kMany - kFewer),
                  .limit = Limit::at_most,
                  .target = 200.0,
                  .beside = {{"at the peak, while a round is planned",
                              (many.peak_bytes - fewer.peak_bytes) / (kMany - kFewer), "bytes"}},
                  .open = {}});
}

}  // namespace gleaner::bench
