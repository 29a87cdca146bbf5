#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "simulation/devices/pickle.hpp"
#include "simulation/devices/sources.hpp"

namespace gleaner::simulation {
namespace {

// FedScale counts a transfer in bytes / 1024 x 8 and divides by kbit/s.
constexpr double kBytesPerKbit = 128.0;

// "The backward pass takes twice as long as the forward one", says its client_metadata.py.
constexpr double kTrainingPerInference = 3.0;

constexpr double kMostSeconds = 1e9;
constexpr double kLeastCapacity = 1e-9;  // of what is divided by, or is a rate: both ways stay finite

class Trace {
 public:
  static Result<Trace> load(const std::string& path) {
    GLEANER_ASSIGN(const std::string bytes, read_trace(path));
    auto document = pickle::load(bytes);
    if (!document) {
      return fail(ErrorCode::bad_input, fmt::format("{}: {}", path, document.error().message()));
    }
    Trace trace(path, std::move(*document));
    const auto* entries = trace.document_.dict(trace.document_.root);
    if (entries == nullptr || entries->empty()) {
      return fail(
          ErrorCode::bad_input,
          fmt::format("{}: is {}, expected a dictionary with an entry for each device", path,
                      entries == nullptr ? trace.document_.describe(trace.document_.root) : "an empty dictionary"));
    }
    return trace;
  }

  std::size_t size() const { return entries().size(); }

  std::unexpected<Error> mistake(std::size_t entry, const std::string& what) const {
    return fail(ErrorCode::bad_input, fmt::format("{}: entry {} (key {}): {}", path_, entry + 1,
                                                  document_.describe(entries()[entry].first), what));
  }

  // A field of an entry; a device's dictionary may have others, which are not looked at.
  Result<const pickle::Value*> field(std::size_t entry, std::string_view name) const {
    const auto* fields = document_.dict(entries()[entry].second);
    if (fields == nullptr) {
      return mistake(entry, fmt::format("is {}, expected a dictionary", document_.describe(entries()[entry].second)));
    }
    for (const auto& [key, value] : *fields) {
      const std::string* text = document_.text(key);
      if (text != nullptr && *text == name) return &value;
    }
    return mistake(entry, fmt::format("has no \"{}\"", name));
  }

  Result<double> number(std::size_t entry, std::string_view name) const {
    GLEANER_ASSIGN(const pickle::Value* value, field(entry, name));
    const auto found = as_number(*value);
    if (!found || !(*found >= kLeastCapacity) || *found > kMostSeconds) {
      return mistake(entry,
                     fmt::format("\"{}\" is {}, expected a number from 1e-9 to 1e9", name, document_.describe(*value)));
    }
    return *found;
  }

  // Seconds within the trace, from 0 on.
  Result<std::vector<Duration>> times(std::size_t entry, std::string_view name) const {
    GLEANER_ASSIGN(const pickle::Value* value, field(entry, name));
    const auto* list = document_.list(*value);
    if (list == nullptr) {
      return mistake(entry, fmt::format("\"{}\" is {}, expected a list", name, document_.describe(*value)));
    }
    std::vector<Duration> times;
    times.reserve(list->size());
    for (std::size_t i = 0; i < list->size(); ++i) {
      const auto found = as_number((*list)[i]);
      if (!found || !(*found >= 0.0) || *found > kMostSeconds) {
        return mistake(entry, fmt::format("\"{}\"[{}] is {}, expected seconds from 0 to 1e9", name, i,
                                          document_.describe((*list)[i])));
      }
      times.push_back(in_ns(*found));
    }
    return times;
  }

  static Duration in_ns(double seconds) { return Duration(static_cast<std::int64_t>(seconds * 1e9 + 0.5)); }

 private:
  Trace(std::string path, pickle::Document document) : path_(std::move(path)), document_(std::move(document)) {}

  const std::vector<std::pair<pickle::Value, pickle::Value>>& entries() const {
    return *document_.dict(document_.root);
  }

  static std::optional<double> as_number(const pickle::Value& value) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
    if (const auto* real = std::get_if<double>(&value)) return *real;
    return std::nullopt;
  }

  std::string path_;
  pickle::Document document_;
};

class Capacity final : public TraitsSource {
 public:
  struct Row {
    double samples_per_s;
    double bytes_per_s;
  };
  Capacity(std::vector<Row> rows, const LinkDefaults& link) : rows_(std::move(rows)), link_(link) {}

  DeviceTraits traits(std::uint32_t device) const override {
    const Row& row = rows_[device % rows_.size()];
    return {.samples_per_s = row.samples_per_s,
            .uplink_bytes_per_s = row.bytes_per_s,
            .downlink_bytes_per_s = row.bytes_per_s,
            .latency = link_.latency,
            .jitter = link_.jitter,
            .loss = link_.loss,
            .failure_rate = link_.failure_rate};
  }

 private:
  std::vector<Row> rows_;
  LinkDefaults link_;
};

struct Window {
  Duration from{};
  Duration to{};  // not in it
};

// The windows of all devices one after another; device i's end at ends[i].
struct Windows {
  std::vector<Window> windows;
  std::vector<std::size_t> ends;
  std::vector<Duration> periods;
};

class Behaviour final : public AvailabilitySource {
 public:
  explicit Behaviour(Windows all) : all_(std::move(all)) {}

  Availability availability(std::uint32_t device, Instant t) const override {
    const std::size_t i = device % all_.ends.size();
    const std::size_t first = i == 0 ? 0 : all_.ends[i - 1];
    const auto windows = std::span(all_.windows).subspan(first, all_.ends[i] - first);
    if (windows.empty()) return {.reachable = false, .until = std::nullopt};
    const Duration period = all_.periods[i];
    if (windows.front().from == Duration::zero() && windows.front().to == period) return {};
    const Duration at = t.since_start % period;
    const auto next = std::ranges::upper_bound(windows, at, {}, &Window::from);
    if (next != windows.begin() && at < std::prev(next)->to) {
      return {.reachable = true, .until = t + (std::prev(next)->to - at)};
    }
    const Duration from = next != windows.end() ? next->from : period + windows.front().from;
    return {.reachable = false, .until = t + (from - at)};
  }

 private:
  Windows all_;
};

// In order, apart, and within the period.
std::vector<Window> tidied(std::vector<Window> windows, Duration period) {
  for (Window& window : windows) window.to = std::min(window.to, period);
  std::erase_if(windows, [](const Window& window) { return window.from >= window.to; });
  std::ranges::sort(windows, {}, &Window::from);
  std::vector<Window> out;
  for (const Window& window : windows) {
    if (!out.empty() && window.from <= out.back().to) {
      out.back().to = std::max(out.back().to, window.to);
    } else {
      out.push_back(window);
    }
  }
  return out;
}

Status add_windows(const Trace& trace, std::size_t entry, Windows& all) {
  GLEANER_ASSIGN(const double finish, trace.number(entry, "finish_time"));
  GLEANER_ASSIGN(const std::vector<Duration> active, trace.times(entry, "active"));
  GLEANER_ASSIGN(const std::vector<Duration> inactive, trace.times(entry, "inactive"));
  // One that is on when the trace ends may have no last end.
  if (inactive.size() != active.size() && inactive.size() + 1 != active.size()) {
    return trace.mistake(entry, fmt::format("\"active\" has {} times and \"inactive\" {}, expected as many",
                                            active.size(), inactive.size()));
  }
  const Duration period = Trace::in_ns(finish);
  if (period < std::chrono::seconds(1)) return trace.mistake(entry, "\"finish_time\" is below a second");
  std::vector<Window> windows;
  for (std::size_t i = 0; i < active.size(); ++i) {
    const Window window{.from = active[i], .to = i < inactive.size() ? inactive[i] : period};
    if (window.to < window.from) {
      return trace.mistake(entry, fmt::format("\"inactive\"[{}] is before \"active\"[{}]", i, i));
    }
    windows.push_back(window);
  }
  const std::vector<Window> tidy = tidied(std::move(windows), period);
  all.windows.insert(all.windows.end(), tidy.begin(), tidy.end());
  all.ends.push_back(all.windows.size());
  all.periods.push_back(period);
  return {};
}

}  // namespace

Result<std::unique_ptr<TraitsSource>> make_fedscale_capacity(const DeviceSettings& settings) {
  GLEANER_ASSIGN(const Trace trace, Trace::load(settings.capacity_file));
  std::vector<Capacity::Row> rows;
  rows.reserve(trace.size());
  for (std::size_t i = 0; i < trace.size(); ++i) {
    GLEANER_ASSIGN(const double inference_ms, trace.number(i, "computation"));
    GLEANER_ASSIGN(const double kbit_per_s, trace.number(i, "communication"));
    rows.push_back({1000.0 / (kTrainingPerInference * inference_ms), kbit_per_s * kBytesPerKbit});
  }
  return std::make_unique<Capacity>(std::move(rows), settings.link);
}

Result<std::unique_ptr<AvailabilitySource>> make_fedscale_behaviour(const DeviceSettings& settings) {
  GLEANER_ASSIGN(const Trace trace, Trace::load(settings.availability_file));
  Windows all;
  for (std::size_t i = 0; i < trace.size(); ++i) GLEANER_TRY(add_windows(trace, i, all));
  return std::make_unique<Behaviour>(std::move(all));
}

}  // namespace gleaner::simulation
