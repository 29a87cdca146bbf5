#include "simulation/output/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "simulation/output/gnuplot.hpp"

namespace gleaner::simulation {
namespace {

struct Axis {
  PlotAxis axis;
  std::string_view file;
};
constexpr std::array<Axis, 3> kAxes = {{{PlotAxis::rounds, "accuracy-rounds.svg"},
                                        {PlotAxis::bytes, "accuracy-bytes.svg"},
                                        {PlotAxis::virtual_time, "accuracy-time.svg"}}};

// A string of gnuplot's between single quotes, in which nothing but a quote has a meaning.
std::string in_single_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += c;
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  return out + "'";
}

struct Unit {
  double size;
  std::string_view name;
};

Unit unit_of(double largest, PlotAxis axis) {
  if (axis == PlotAxis::rounds) return {1.0, "rounds"};
  if (axis == PlotAxis::bytes) {
    if (largest >= 2e9) return {1e9, "GB in both directions"};
    return largest >= 2e6 ? Unit{1e6, "MB in both directions"} : Unit{1e3, "kB in both directions"};
  }
  if (largest >= 172'800.0) return {86'400.0, "days of virtual time"};
  if (largest >= 7'200.0) return {3'600.0, "hours of virtual time"};
  return largest >= 120.0 ? Unit{60.0, "minutes of virtual time"} : Unit{1.0, "seconds of virtual time"};
}

struct Point {
  double x;
  double accuracy;
};

std::vector<Point> points_of(const Recording& recording, PlotAxis axis) {
  std::vector<Point> points;
  std::uint64_t bytes = 0;
  for (const RoundRecord& r : recording.rounds) {
    bytes += r.frame_bytes_up + r.frame_bytes_down;
    if (!r.accuracy) continue;
    const double x = axis == PlotAxis::rounds  ? static_cast<double>(r.round)
                     : axis == PlotAxis::bytes ? static_cast<double>(bytes)
                                               : r.virtual_s;
    points.push_back({x, *r.accuracy});
  }
  return points;
}

bool has_accuracy(const Recording& recording) {
  return std::ranges::any_of(recording.rounds, [](const RoundRecord& r) { return r.accuracy.has_value(); });
}

}  // namespace

std::string plot_script(std::span<const Recording> recordings, PlotAxis axis, const std::string& svg_path) {
  double largest = 0.0;
  for (const Recording& recording : recordings) {
    for (const Point& point : points_of(recording, axis)) largest = std::max(largest, point.x);
  }
  const Unit unit = unit_of(largest, axis);
  std::string out = "set terminal svg size 900,560 dynamic noenhanced background rgb 'white'\n";
  out += fmt::format("set output {}\n", in_single_quotes(svg_path));
  out += fmt::format("set xlabel {}\nset ylabel 'accuracy'\nset grid\nset key bottom right\n",
                     in_single_quotes(unit.name));
  std::string plots;
  for (std::size_t i = 0; i < recordings.size(); ++i) {
    const std::vector<Point> points = points_of(recordings[i], axis);
    if (points.empty()) continue;
    out += fmt::format("$curve{} << END_OF_CURVE\n", i);
    for (const Point& point : points) out += fmt::format("{} {}\n", point.x / unit.size, point.accuracy);
    out += "END_OF_CURVE\n";
    const OutputLabel& label = recordings[i].label;
    plots += fmt::format("{}$curve{} using 1:2 with linespoints pointtype 7 pointsize 0.3 linewidth 2 title {}",
                         plots.empty() ? "" : ", ", i,
                         in_single_quotes(fmt::format("{} ({})", label.experiment, label.data)));
  }
  return out + "plot " + plots + "\nunset output\n";
}

Result<std::vector<std::string>> plot(std::span<const Recording> recordings, const std::string& directory) {
  if (std::ranges::none_of(recordings, has_accuracy)) {
    return fail(ErrorCode::bad_input, "no round of what is to be plotted has an accuracy");
  }
  std::error_code code;
  std::filesystem::create_directories(directory, code);
  if (code) return fail(ErrorCode::fatal, fmt::format("{}: {}", directory, code.message()));
  std::vector<std::string> paths;
  for (const Axis& axis : kAxes) {
    const std::string path = (std::filesystem::path(directory) / axis.file).string();
    const std::string unfinished = path + ".part";
    Status status = run_gnuplot(plot_script(recordings, axis.axis, unfinished));
    if (status && std::rename(unfinished.c_str(), path.c_str()) != 0) {
      status = fail(ErrorCode::fatal, fmt::format("{}: {}", path, std::strerror(errno)));
    }
    if (!status) {
      std::filesystem::remove(unfinished, code);
      return fail(std::move(status).error());
    }
    paths.push_back(path);
  }
  return paths;
}

}  // namespace gleaner::simulation
