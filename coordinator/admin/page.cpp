#include "coordinator/admin/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "common/text.hpp"

namespace gleaner::admin {
namespace {

constexpr std::size_t kDevicesShownMax = 100;
constexpr double kChartWidth = 720;
constexpr double kChartHeight = 160;

// The policy forbids what the page does not have, should a name ever get through unescaped.
constexpr std::string_view kHead = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width"><title>Gleaner</title><style>
body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:64em;padding:0 1em;color:#222;background:#fff}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.2em .8em .2em 0;border-bottom:1px solid #ddd}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}progress{width:8em}.bad{color:#b00020;font-weight:bold}
svg{width:100%;max-width:720px;background:#f6f6f6}polyline{fill:none;stroke:#06c;stroke-width:2}small{color:#666}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}th,td{border-color:#444}svg{background:#222}}
</style></head><body>
<h1>Gleaner</h1>
)";

class Html {
 public:
  explicit Html(std::string_view head) : text_(head) {}
  // Arguments are escaped already, or numbers.
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string percent(const std::optional<double>& ratio) {
  return ratio && std::isfinite(*ratio) ? fmt::format("{:.2f} %", 100 * *ratio) : "–";
}

std::string bytes(std::uint64_t count) { return escape_html(human_bytes(static_cast<double>(count))); }

// What was sent, against what dense models would have been.
std::string against_dense(std::uint64_t sent, std::uint64_t dense) {
  if (sent == 0 || dense == 0) return bytes(sent);
  return fmt::format("{} <small>of {} dense, {:.1f}×</small>", bytes(sent), bytes(dense),
                     static_cast<double>(dense) / static_cast<double>(sent));
}

void add_health(const Health& health, Html& out) {
  if (health.suspended) {
    out.add("<p class=\"bad\">Not serving: {}</p>\n", escape_html(health.reason));
  } else {
    out.add("<p>Serving: {}</p>\n", escape_html(health.detail));
  }
}

void add_run(const RunStatus& run, Html& out) {
  const std::uint32_t version = std::min(run.row.version.value, run.rounds);
  out.add("<tr><td>{}<br><small>{}</small></td><td>{}</td>", escape_html(run.row.name), escape_html(run.recipe),
          escape_html(to_string(run.row.state)));
  out.add("<td><progress max=\"{}\" value=\"{}\"></progress> {} of {}</td>", std::max(run.rounds, 1U), version,
          run.row.version.value, run.rounds);
  out.add("<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n", percent(run.accuracy),
          against_dense(run.traffic.up_bytes, run.dense_up_bytes),
          against_dense(run.traffic.down_bytes, run.dense_down_bytes));
}

void add_runs(const std::vector<RunStatus>& runs, Html& out) {
  out.add("<h2>Runs</h2>\n");
  if (runs.empty()) return out.add("<p>None yet: <code>gleaner run start FILE</code> starts one.</p>\n");
  out.add(
      "<table><tr><th>run</th><th>state</th><th>versions</th><th class=\"n\">accuracy</th><th class=\"n\">up</th>"
      "<th class=\"n\">down</th></tr>\n");
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) add_run(*run, out);
  out.add("</table>\n");
}

struct Point {
  std::uint32_t round = 0;
  double accuracy = 0.0;
};

std::vector<Point> points_of(const std::vector<RoundRow>& rounds) {
  std::vector<Point> points;
  for (const RoundRow& row : rounds) {
    if (row.accuracy && std::isfinite(*row.accuracy)) {
      points.push_back({row.round, std::clamp(*row.accuracy, 0.0, 1.0)});
    }
  }
  return points;
}

// From 0 to 100 %, over the rounds that were given.
void add_chart(const Overview& seen, Html& out) {
  const auto points = points_of(seen.rounds);
  if (points.empty()) return;
  const std::uint32_t first = points.front().round;
  const std::uint32_t last = points.back().round;
  const double span = std::max(1.0, static_cast<double>(last) - first);
  out.add("<h2>Accuracy of {}</h2>\n<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"accuracy by round\">",
          escape_html(seen.shown), kChartWidth, kChartHeight);
  out.add("<polyline points=\"");
  for (const Point& point : points) {
    const double x = kChartWidth * (static_cast<double>(point.round) - first) / span;
    out.add("{:.1f},{:.1f} ", x, kChartHeight * (1.0 - point.accuracy));
  }
  out.add("\"/></svg>\n<p><small>rounds {} to {}, 0 to 100 %; newest {}</small></p>\n", first, last,
          percent(points.back().accuracy));
}

std::string state_of(const DeviceStatus& device) {
  if (device.row.revoked) return "<span class=\"bad\">revoked</span>";
  if (device.quarantined) return "<span class=\"bad\">quarantined</span>";
  if (!device.connected) return "away";
  return device.open_plan != 0 ? "has a plan" : "connected";
}

void add_devices(const std::vector<DeviceStatus>& devices, Html& out) {
  std::vector<const DeviceStatus*> order;
  for (const DeviceStatus& device : devices) order.push_back(&device);
  std::ranges::sort(order, [](const DeviceStatus* a, const DeviceStatus* b) {
    return a->connected != b->connected ? a->connected : a->row.name < b->row.name;
  });
  const auto connected = std::ranges::count_if(devices, [](const DeviceStatus& d) { return d.connected; });
  out.add("<h2>Devices</h2>\n<p>{} connected of {} known</p>\n", connected, devices.size());
  if (devices.empty()) return;
  out.add(
      "<table><tr><th>device</th><th>state</th><th>address</th><th class=\"n\">samples</th><th class=\"n\">up</th>"
      "<th class=\"n\">down</th></tr>\n");
  for (std::size_t i = 0; i < std::min(order.size(), kDevicesShownMax); ++i) {
    const DeviceStatus& device = *order[i];
    out.add(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>",
        escape_html(device.row.name.value), state_of(device), escape_html(device.address), device.samples,
        bytes(device.row.up_bytes), bytes(device.row.down_bytes));
    out.add("</tr>\n");
  }
  out.add("</table>\n");
  if (order.size() > kDevicesShownMax) {
    out.add("<p>and {} more: <code>gleaner devices</code> lists all</p>\n", order.size() - kDevicesShownMax);
  }
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out.push_back(c);
    }
  }
  return out;
}

std::string to_html(const Overview& seen) {
  Html out(kHead);
  add_health(seen.health, out);
  add_runs(seen.runs, out);
  add_chart(seen, out);
  add_devices(seen.devices, out);
  out.add("<p><small><a href=\"/metrics\">metrics</a> · <a href=\"/healthz\">health</a></small></p>\n</body></html>\n");
  return out.take();
}

}  // namespace gleaner::admin
