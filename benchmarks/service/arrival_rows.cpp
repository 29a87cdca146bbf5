#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "benchmarks/service/fleet.hpp"
#include "benchmarks/service/rows.hpp"

namespace gleaner::bench {
namespace {

constexpr std::uint32_t kDevices = 1'000;
constexpr std::uint32_t kHiddenUnits = 14'717;
constexpr std::uint32_t kDimension = 784 * kHiddenUnits + kHiddenUnits + kHiddenUnits * 10 + 10;
constexpr std::uint32_t kEntries = kDimension / 100;
constexpr Duration kTimeout = std::chrono::seconds(120);
constexpr double kMebibyte = 1U << 20;

std::string run_file() {
  return fmt::format(
      "[run]\nname = \"arrivals\"\nrecipe = \"topk\"\nrounds = 1000000\nreproducible = true\n"
      "[model]\nname = \"mlp\"\nhidden_units = {}\n[data]\nname = \"fashion-mnist\"\n"
      "[cohort]\nsize = {}\nmin_devices = {}\nplanner = \"uniform\"\n",
      kHiddenUnits, kDevices, kDevices);
}

// Asks for the gauge again and again until it is told to stop.
class InflightWatch {
 public:
  explicit InflightWatch(const Coordinator& coordinator) : thread_([this, &coordinator] { watch(coordinator); }) {}
  ~InflightWatch() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  std::uint64_t finish() {
    stop_ = true;
    thread_.join();
    return most_bytes_;
  }

 private:
  void watch(const Coordinator& coordinator) {
    while (!stop_) {
      const auto bytes = coordinator.inflight_bytes();
      if (bytes) most_bytes_ = std::max(most_bytes_, *bytes);
    }
  }
  std::atomic<bool> stop_ = false;
  std::uint64_t most_bytes_ = 0;
  std::thread thread_;
};

}  // namespace

Status measure_arrivals(const Bed& bed, Rows& rows) {
  GLEANER_ASSIGN(Coordinator coordinator, Coordinator::start(bed, "arrivals"));
  FleetLoad load{.first_device = 0, .devices = kDevices, .payloads = {}};
  for (std::uint32_t i = 0; i < kDevices; ++i) load.payloads.push_back(random_payload(i + 1, kDimension, kEntries));
  const double payload_mib = static_cast<double>(load.payloads[0].bytes.size()) / kMebibyte;
  GLEANER_ASSIGN(auto fleet, Fleet::make(bed, coordinator.port(), std::move(load)));
  GLEANER_TRY(coordinator.start_run(run_file()));
  GLEANER_TRY(fleet->connect(kDevices, kTimeout));
  GLEANER_TRY(fleet->wait_for_plans(kTimeout));
  GLEANER_ASSIGN(const Memory idle, coordinator.process().memory());
  GLEANER_TRY(coordinator.process().reset_peak());
  InflightWatch inflight(coordinator);
  GLEANER_TRY(fleet->run_rounds(1, kTimeout));
  GLEANER_ASSIGN(const Memory after, coordinator.process().memory());
  const double inflight_mib = static_cast<double>(inflight.finish()) / kMebibyte;
  if (fleet->refusals() > 0) return fail(ErrorCode::fatal, "updates of the replayed devices were refused");
  fleet.reset();
  GLEANER_TRY(coordinator.stop());
  const auto above_idle = [&](std::uint64_t bytes) {
    return (static_cast<double>(bytes) - static_cast<double>(idle.resident_bytes)) / kMebibyte;
  };
  rows.push_back({.name = "arrivals",
                  .text = fmt::format("peak above idle, {} updates of {:.2f} MiB for {} parameters, two rounds with "
                                      "their commits",
                                      kDevices, payload_mib, kDimension),
                  .unit = "MiB",
                  .value = above_idle(after.peak_bytes),
                  .target = 190.0,
                  .references = {{"idle", static_cast<double>(idle.resident_bytes) / kMebibyte},
                                 {"a sum of 8 B a parameter", 8.0 * kDimension / kMebibyte},
                                 {"kept afterwards", above_idle(after.resident_bytes)}},
                  .note = {}});
  rows.push_back({.name = "inflight",
                  .text = "payload bytes in flight meanwhile, of the gauge",
                  .unit = "MiB",
                  .value = inflight_mib,
                  .target = 64.0,
                  .references = {},
                  .note = {}});
  return {};
}

}  // namespace gleaner::bench
