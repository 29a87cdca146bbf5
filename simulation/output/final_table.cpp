#include <fmt/format.h>

#include <cmath>

#include "common/text.hpp"
#include "simulation/output/round_output.hpp"

namespace gleaner::simulation {
namespace {

// "36.2 s", "12 min 5 s", "3 h 20 min", "2 d 5 h".
std::string human_time(double seconds) {
  if (seconds < 60.0) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::uint64_t>(std::round(seconds));
  if (whole < 3'600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  if (whole < 86'400) return fmt::format("{} h {} min", whole / 3'600, whole % 3'600 / 60);
  return fmt::format("{} d {} h", whole / 86'400, whole % 86'400 / 3'600);
}

struct Sums {
  std::uint64_t payload_up = 0, payload_down = 0;
  std::uint64_t frame_up = 0, frame_down = 0;
  std::uint64_t socket_up = 0, socket_down = 0;
  std::uint64_t uploads = 0, skips = 0, late = 0, lapsed = 0;
  const RoundRecord* evaluated = nullptr;  // the last one
  const RoundRecord* best = nullptr;
};

Sums sums_of(const std::vector<RoundRecord>& rounds) {
  Sums s;
  for (const RoundRecord& r : rounds) {
    s.payload_up += r.payload_bytes_up;
    s.payload_down += r.payload_bytes_down;
    s.frame_up += r.frame_bytes_up;
    s.frame_down += r.frame_bytes_down;
    s.socket_up += r.socket_bytes_up;
    s.socket_down += r.socket_bytes_down;
    s.uploads += r.uploads;
    s.skips += r.skips;
    s.late += r.late;
    s.lapsed += r.lapsed;
    if (!r.accuracy) continue;
    s.evaluated = &r;
    if (s.best == nullptr || *r.accuracy > *s.best->accuracy) s.best = &r;
  }
  return s;
}

std::string bytes_row(std::string_view name, std::uint64_t up, std::uint64_t down) {
  return fmt::format("{:<16}{} up, {} down\n", name, human_bytes(static_cast<double>(up)),
                     human_bytes(static_cast<double>(down)));
}

}  // namespace

std::string final_table(const OutputLabel& label, const std::vector<RoundRecord>& rounds) {
  std::string out = fmt::format("{:<16}{}\n{:<16}{}\n", "experiment", label.experiment, "data", label.data);
  if (rounds.empty()) return out + fmt::format("{:<16}none\n", "rounds");
  const Sums s = sums_of(rounds);
  const RoundRecord& last = rounds.back();
  out += fmt::format("{:<16}{}, version {}\n", "rounds", last.round, last.version);
  if (s.evaluated == nullptr) {
    out += fmt::format("{:<16}not measured\n", "accuracy");
  } else {
    out += fmt::format("{:<16}{:.4f} in round {}, best {:.4f} in round {}\n", "accuracy", *s.evaluated->accuracy,
                       s.evaluated->round, *s.best->accuracy, s.best->round);
    if (s.evaluated->loss) out += fmt::format("{:<16}{:.4f}\n", "loss", *s.evaluated->loss);
  }
  out += fmt::format("{:<16}{}\n", "virtual time", human_time(last.virtual_s));
  out += fmt::format("{:<16}{}", "real time", human_time(last.real_s));
  if (last.real_s > 0.0) out += fmt::format(", {:.3g} rounds/s", static_cast<double>(last.round) / last.real_s);
  out += '\n';
  out += bytes_row("payloads", s.payload_up, s.payload_down);
  out += bytes_row("frames", s.frame_up, s.frame_down);
  out += bytes_row("sockets (est.)", s.socket_up, s.socket_down);
  out +=
      fmt::format("{:<16}{} sent, {} skipped, {} late, {} lapsed\n", "updates", s.uploads, s.skips, s.late, s.lapsed);
  return out;
}

}  // namespace gleaner::simulation
