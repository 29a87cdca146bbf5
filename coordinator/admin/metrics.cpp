#include "coordinator/admin/metrics.hpp"

#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <utility>

#include "coordinator/round/machine.hpp"

namespace gleaner::admin {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

class Families {
 public:
  // The following samples belong to it.
  void begin(MetricType type, std::string name, std::string help) {
    MetricFamily family;
    family.name = std::move(name);
    family.help = std::move(help);
    family.type = type;
    families_.push_back(std::move(family));
  }
  void gauge(std::string name, std::string help) { begin(MetricType::Gauge, std::move(name), std::move(help)); }
  void counter(std::string name, std::string help) { begin(MetricType::Counter, std::move(name), std::move(help)); }

  void sample(Labels labels, double value) {
    MetricFamily& family = families_.back();
    ClientMetric metric;
    metric.label = std::move(labels);
    if (family.type == MetricType::Counter) {
      metric.counter.value = value;
    } else {
      metric.gauge.value = value;
    }
    family.metric.push_back(std::move(metric));
  }
  void sample(Labels labels, std::uint64_t value) { sample(std::move(labels), static_cast<double>(value)); }

  // A family without samples says nothing.
  std::string text() {
    std::erase_if(families_, [](const MetricFamily& family) { return family.metric.empty(); });
    return prometheus::TextSerializer().Serialize(families_);
  }

 private:
  std::vector<MetricFamily> families_;
};

Labels run_label(const RunStatus& run) { return {{"run", run.row.name}}; }

using Runs = std::span<const RunStatus>;

void add_run_states(Runs runs, Families& out) {
  constexpr RunState kStates[] = {RunState::waiting, RunState::active, RunState::paused, RunState::finished,
                                  RunState::stopped};
  out.gauge("gleaner_run_state", "1 for the state that the run is in.");
  for (const RunStatus& run : runs) {
    for (const RunState state : kStates) {
      out.sample({{"run", run.row.name}, {"state", std::string(to_string(state))}}, run.row.state == state ? 1.0 : 0.0);
    }
  }
}

void add_run_gauges(Runs runs, Families& out) {
  const auto add = [&](const char* name, const char* help, auto value) {
    out.gauge(name, help);
    for (const RunStatus& run : runs) out.sample(run_label(run), static_cast<double>(value(run)));
  };
  add("gleaner_run_suspended", "1 while nothing of the run can be stored.",
      [](const RunStatus& r) { return r.suspension.empty() ? 0 : 1; });
  add("gleaner_run_round", "The open round, or the last one.", [](const RunStatus& r) { return r.round; });
  add("gleaner_run_rounds_wanted", "Versions after which the run is finished.",
      [](const RunStatus& r) { return r.rounds; });
  add("gleaner_run_version", "The newest committed version of the model.",
      [](const RunStatus& r) { return r.row.version.value; });
  add("gleaner_run_devices_connected", "Connected devices that take part in the run.",
      [](const RunStatus& r) { return r.devices_connected; });
  add("gleaner_run_devices_known", "Devices that have taken part in the run.",
      [](const RunStatus& r) { return r.devices_known; });
  out.gauge("gleaner_run_accuracy_ratio", "Accuracy on the held-out data at the newest evaluation.");
  for (const RunStatus& run : runs) {
    if (run.accuracy) out.sample(run_label(run), *run.accuracy);
  }
  out.gauge("gleaner_run_loss", "Loss on the held-out data at the newest evaluation.");
  for (const RunStatus& run : runs) {
    if (run.loss) out.sample(run_label(run), *run.loss);
  }
}

void add_run_counters(Runs runs, Families& out) {
  const auto add = [&](const char* name, const char* help, auto value) {
    out.counter(name, help);
    for (const RunStatus& run : runs) out.sample(run_label(run), static_cast<double>(value(run)));
  };
  add("gleaner_run_uploads_total", "Updates that entered a committed version.",
      [](const RunStatus& r) { return r.counters.uploads; });
  add("gleaner_run_late_uploads_total", "Updates that entered a later round than planned.",
      [](const RunStatus& r) { return r.counters.late_uploads; });
  add("gleaner_run_skips_total", "Plans that devices answered with a skip.",
      [](const RunStatus& r) { return r.counters.skips; });
  add("gleaner_run_refusals_total", "Updates of the run that were refused.",
      [](const RunStatus& r) { return r.counters.refusals; });
  add("gleaner_run_lapsed_plans_total", "Plans that were closed without an answer.",
      [](const RunStatus& r) { return r.counters.lapsed_plans; });
  add("gleaner_run_empty_rounds_total", "Rounds in which nothing usable arrived.",
      [](const RunStatus& r) { return r.counters.empty_rounds; });
}

void add_run_bytes(Runs runs, Families& out) {
  const auto each = [&](auto add) {
    for (const RunStatus& run : runs) add(run.row.name, run.traffic, run);
  };
  out.counter("gleaner_run_socket_bytes_total", "Bytes at the sockets, TLS and all.");
  each([&](const std::string& name, const Traffic& t, const RunStatus&) {
    out.sample({{"run", name}, {"direction", "up"}}, t.up_bytes);
    out.sample({{"run", name}, {"direction", "down"}}, t.down_bytes);
  });
  out.counter("gleaner_run_payload_bytes_total", "Bytes of values and of indices in updates and patches.");
  each([&](const std::string& name, const Traffic& t, const RunStatus&) {
    out.sample({{"run", name}, {"direction", "up"}, {"part", "values"}}, t.up_value_bytes);
    out.sample({{"run", name}, {"direction", "up"}, {"part", "indices"}}, t.up_index_bytes);
    out.sample({{"run", name}, {"direction", "down"}, {"part", "values"}}, t.down_value_bytes);
    out.sample({{"run", name}, {"direction", "down"}, {"part", "indices"}}, t.down_index_bytes);
  });
  out.counter("gleaner_run_dense_bytes_total", "Bytes that the same plans would have cost as dense models.");
  each([&](const std::string& name, const Traffic&, const RunStatus& run) {
    out.sample({{"run", name}, {"direction", "up"}}, run.dense_up_bytes);
    out.sample({{"run", name}, {"direction", "down"}}, run.dense_down_bytes);
  });
}

void add_device_counts(const std::vector<DeviceStatus>& devices, Families& out) {
  const auto count = [&](auto matches) { return static_cast<std::uint64_t>(std::ranges::count_if(devices, matches)); };
  out.gauge("gleaner_devices_known", "Devices that have connected at some time.");
  out.sample({}, devices.size());
  out.gauge("gleaner_devices_connected", "Devices that are connected.");
  out.sample({}, count([](const DeviceStatus& d) { return d.connected; }));
  out.gauge("gleaner_devices_revoked", "Devices that are turned away.");
  out.sample({}, count([](const DeviceStatus& d) { return d.row.revoked; }));
  out.gauge("gleaner_devices_quarantined", "Devices that reconnect too often and have to wait.");
  out.sample({}, count([](const DeviceStatus& d) { return d.quarantined; }));
}

void add_device_bytes(const std::vector<DeviceStatus>& devices, std::size_t named_max, Families& out) {
  std::vector<const DeviceRow*> rows;
  for (const DeviceStatus& device : devices) rows.push_back(&device.row);
  const auto total = [](const DeviceRow* row) { return row->up_bytes + row->down_bytes; };
  std::ranges::sort(rows, [&](const DeviceRow* a, const DeviceRow* b) {
    return total(a) != total(b) ? total(a) > total(b) : a->name < b->name;
  });
  const std::size_t named = std::min(named_max, rows.size());
  out.counter("gleaner_device_socket_bytes_total", "Bytes at the sockets of the devices with the most.");
  for (std::size_t i = 0; i < named; ++i) {
    out.sample({{"device", rows[i]->name.value}, {"direction", "up"}}, rows[i]->up_bytes);
    out.sample({{"device", rows[i]->name.value}, {"direction", "down"}}, rows[i]->down_bytes);
  }
  // Who has a series of its own changes, so that the sum of the others can fall: no counter.
  std::uint64_t up = 0;
  std::uint64_t down = 0;
  for (std::size_t i = named; i < rows.size(); ++i) {
    up += rows[i]->up_bytes;
    down += rows[i]->down_bytes;
  }
  out.gauge("gleaner_other_devices_socket_bytes", "Bytes at the sockets of all devices without a series of their own.");
  out.sample({{"direction", "up"}}, up);
  out.sample({{"direction", "down"}}, down);
}

void add_refusals(const std::map<RefusalCode, std::uint64_t>& refusals, Families& out) {
  out.counter("gleaner_refusals_total", "Refused messages of devices by reason, since the start.");
  const auto last = std::to_underlying(RefusalCode::wrong_digest);
  for (auto value = std::to_underlying(RefusalCode::stale_plan); value <= last; ++value) {
    const auto code = static_cast<RefusalCode>(value);
    const auto found = refusals.find(code);
    out.sample({{"code", std::string(to_string(code))}}, found == refusals.end() ? 0 : found->second);
  }
}

void add_process(const ProcessFacts& process, Families& out) {
  const auto add = [&](const char* name, const char* help, std::uint64_t value) {
    out.gauge(name, help);
    out.sample({}, value);
  };
  add("gleaner_process_resident_bytes", "Memory of the process that is in RAM.", process.resident_bytes);
  add("gleaner_process_open_files", "Open file descriptors.", process.open_files);
  add("gleaner_process_open_files_max", "Open file descriptors that the process may have.", process.open_files_max);
  add("gleaner_connections", "Connections of devices, handshakes included.", process.connections);
  add("gleaner_inflight_payload_bytes", "Payload bytes that arrived and are not folded yet.", process.inflight_bytes);
  out.counter("gleaner_frame_bytes_total",
              "Bytes of messages as encoded, without TLS and heartbeats, since the start.");
  out.sample({{"direction", "up"}}, process.frame_bytes_up);
  out.sample({{"direction", "down"}}, process.frame_bytes_down);
}

}  // namespace

ProcessFacts measure_process() {
  ProcessFacts facts;
  std::uint64_t size_pages = 0;
  std::uint64_t resident_pages = 0;
  std::ifstream statm("/proc/self/statm");
  if (statm >> size_pages >> resident_pages) {
    facts.resident_bytes = resident_pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  }
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error), end; !error && at != end; at.increment(error)) {
    ++facts.open_files;
  }
  if (facts.open_files > 0) --facts.open_files;  // the one that the listing itself needs
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) facts.open_files_max = limit.rlim_cur;
  return facts;
}

std::string to_prometheus(const MetricsInput& input) {
  Families out;
  const Runs runs = Runs(input.runs).last(std::min<std::size_t>(input.runs.size(), input.runs_max));
  add_run_states(runs, out);
  add_run_gauges(runs, out);
  add_run_counters(runs, out);
  add_run_bytes(runs, out);
  add_device_counts(input.devices, out);
  add_device_bytes(input.devices, input.devices_named_max, out);
  add_refusals(input.refusals, out);
  add_process(input.process, out);
  return out.text();
}

}  // namespace gleaner::admin
