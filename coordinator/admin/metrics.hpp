#pragma once
// What a coordinator measures, as text in the Prometheus exposition format (version 0.0.4). Pure but for
// measure_process().

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/refusal.hpp"
#include "coordinator/admin/backend.hpp"

namespace gleaner::admin {

struct ProcessFacts {
  std::uint64_t resident_bytes = 0;
  std::uint64_t open_files = 0;
  std::uint64_t open_files_max = 0;  // the soft limit
  std::uint64_t connections = 0;     // of devices, handshakes included
  std::uint64_t inflight_bytes = 0;  // payload bytes that are not folded yet
  std::uint64_t frame_bytes_up = 0;  // as encoded, heartbeats apart, since the start
  std::uint64_t frame_bytes_down = 0;
};

// Fills in what the kernel knows of this process; the rest stays zero.
ProcessFacts measure_process();

struct MetricsInput {
  std::vector<RunStatus> runs;  // oldest first
  std::vector<DeviceStatus> devices;
  ProcessFacts process;
  std::map<RefusalCode, std::uint64_t> refusals;  // since the start; codes without a count are written as 0
  std::uint32_t runs_max = kRunsSeenMax;          // with series: the newest
  std::uint32_t devices_named_max = 50;  // with series of their own: those with the most bytes; the others are summed
};

std::string to_prometheus(const MetricsInput& input);

}  // namespace gleaner::admin
