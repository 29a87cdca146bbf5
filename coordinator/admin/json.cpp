#include "coordinator/admin/json.hpp"

#include <boost/json.hpp>
#include <cmath>

#include "common/text.hpp"
#include "coordinator/admin/codes.hpp"

namespace gleaner::admin {
namespace {

namespace json = boost::json;

json::value number(double value) { return std::isfinite(value) ? json::value(value) : json::value(nullptr); }
json::value number(const std::optional<double>& value) { return value ? number(*value) : json::value(nullptr); }

json::object object_of(const Traffic& traffic) {
  return {{"up_bytes", traffic.up_bytes},
          {"down_bytes", traffic.down_bytes},
          {"up_value_bytes", traffic.up_value_bytes},
          {"up_index_bytes", traffic.up_index_bytes},
          {"down_value_bytes", traffic.down_value_bytes},
          {"down_index_bytes", traffic.down_index_bytes}};
}

json::object object_of(const round::Counters& counters) {
  return {{"uploads", counters.uploads},
          {"late_uploads", counters.late_uploads},
          {"skips", counters.skips},
          {"refusals", counters.refusals},
          {"lapsed_plans", counters.lapsed_plans},
          {"empty_rounds", counters.empty_rounds}};
}

json::object object_of(const RunStatus& run) {
  return {{"name", run.row.name},
          {"id", to_hex(run.row.id.value)},
          {"state", to_string(run.row.state)},
          {"phase", run.phase},
          {"waiting_for", run.waiting_for},
          {"recipe", run.recipe},
          {"round", run.round},
          {"rounds", run.rounds},
          {"version", run.row.version.value},
          {"model_hash", to_hex(run.row.model_hash)},
          {"lineage", to_hex(run.row.lineage.value)},
          {"created_unix_ms", run.row.created_unix_ms},
          {"devices", {{"connected", run.devices_connected}, {"known", run.devices_known}}},
          {"evaluation",
           {{"version", run.evaluated.value}, {"accuracy", number(run.accuracy)}, {"loss", number(run.loss)}}},
          {"counters", object_of(run.counters)},
          {"traffic", object_of(run.traffic)},
          {"dense", {{"up_bytes", run.dense_up_bytes}, {"down_bytes", run.dense_down_bytes}}}};
}

json::object object_of(const RoundRow& round) {
  return {{"round", round.round},
          {"version", round.version.value},
          {"model_hash", to_hex(round.model_hash)},
          {"contributions", round.contributions},
          {"skips", round.skips},
          {"refusals", round.refusals},
          {"step_squared_norm", number(round.step_squared_norm)},
          {"duration_ms", round.duration_ms},
          {"wall_unix_ms", round.wall_unix_ms},
          {"accuracy", number(round.accuracy)},
          {"loss", number(round.loss)},
          {"traffic", object_of(round.traffic)}};
}

json::object object_of(const DeviceStatus& device) {
  return {{"name", device.row.name.value},
          {"connected", device.connected},
          {"address", device.address},
          {"samples", device.samples},
          {"open_plan", device.open_plan},
          {"flaps", device.flaps},
          {"quarantined", device.quarantined},
          {"declined", device.declined},
          {"revoked", device.row.revoked},
          {"certificate_serial", device.row.certificate_serial},
          {"first_seen_unix_ms", device.row.first_seen_unix_ms},
          {"last_seen_unix_ms", device.row.last_seen_unix_ms},
          {"uplink_bytes_per_s", number(device.row.uplink_bytes_per_s)},
          {"downlink_bytes_per_s", number(device.row.downlink_bytes_per_s)},
          {"samples_per_s", number(device.row.samples_per_s)},
          {"up_bytes", device.row.up_bytes},
          {"down_bytes", device.row.down_bytes}};
}

template <class T>
json::array array_of(const std::vector<T>& items) {
  json::array out;
  out.reserve(items.size());
  for (const T& item : items) out.emplace_back(object_of(item));
  return out;
}

std::string text_of(const json::object& object) { return json::serialize(object) + "\n"; }

}  // namespace

std::string to_json(const RunStatus& run) { return text_of(object_of(run)); }

std::string to_json(const std::vector<RunStatus>& runs) { return text_of({{"runs", array_of(runs)}}); }

std::string to_json(const RunDetail& detail) {
  return text_of({{"run", object_of(detail.status)}, {"rounds", array_of(detail.rounds)}});
}

std::string to_json(const std::vector<DeviceStatus>& devices) { return text_of({{"devices", array_of(devices)}}); }

std::string to_json(const Health& health) {
  return text_of({{"serving", !health.suspended},
                  {"suspended", health.suspended},
                  {"reason", health.reason},
                  {"detail", health.detail}});
}

std::string to_json(const Error& error) {
  return text_of({{"code", row_of(error.code()).name}, {"message", error.message()}});
}

std::string audit_to_json(const std::vector<std::string>& entries) {
  return text_of({{"entries", json::array(entries.begin(), entries.end())}});
}

}  // namespace gleaner::admin
