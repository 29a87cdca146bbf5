#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <cmath>

#include "simulation/output/round_output.hpp"

namespace gleaner::simulation {
namespace {

std::string quoted_json(const std::string& text) { return boost::json::serialize(boost::json::string_view(text)); }

// RFC 4180: quotes around, and doubled inside.
std::string quoted_csv(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += c;
    out += c;
  }
  return out + '"';
}

// JSON has no numbers beyond the finite ones, which a loss that diverged may be.
std::string number_or(const std::optional<double>& value, std::string_view absent) {
  return value && std::isfinite(*value) ? fmt::format("{}", *value) : std::string(absent);
}

}  // namespace

std::string to_json_line(const OutputLabel& label, const RoundRecord& r) {
  return fmt::format(
      R"({{"experiment":{},"data":{},"round":{},"version":{},"virtual_s":{},"real_s":{},"accuracy":{},"loss":{},)"
      R"("payload_bytes_up":{},"payload_bytes_down":{},"frame_bytes_up":{},"frame_bytes_down":{},)"
      R"("socket_bytes_up":{},"socket_bytes_down":{},"uploads":{},"skips":{},"late":{},"lapsed":{},"reachable":{}}})"
      "\n",
      quoted_json(label.experiment), quoted_json(label.data), r.round, r.version, r.virtual_s, r.real_s,
      number_or(r.accuracy, "null"), number_or(r.loss, "null"), r.payload_bytes_up, r.payload_bytes_down,
      r.frame_bytes_up, r.frame_bytes_down, r.socket_bytes_up, r.socket_bytes_down, r.uploads, r.skips, r.late,
      r.lapsed, r.reachable);
}

std::string csv_header() {
  return "experiment,data,round,version,virtual_s,real_s,accuracy,loss,payload_bytes_up,payload_bytes_down,"
         "frame_bytes_up,frame_bytes_down,socket_bytes_up,socket_bytes_down,uploads,skips,late,lapsed,reachable\n";
}

std::string to_csv_line(const OutputLabel& label, const RoundRecord& r) {
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", quoted_csv(label.experiment),
                     quoted_csv(label.data), r.round, r.version, r.virtual_s, r.real_s, number_or(r.accuracy, ""),
                     number_or(r.loss, ""), r.payload_bytes_up, r.payload_bytes_down, r.frame_bytes_up,
                     r.frame_bytes_down, r.socket_bytes_up, r.socket_bytes_down, r.uploads, r.skips, r.late, r.lapsed,
                     r.reachable);
}

}  // namespace gleaner::simulation
