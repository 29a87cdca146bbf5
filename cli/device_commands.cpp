#include <fmt/format.h>

#include <boost/json.hpp>
#include <memory>

#include "cli/commands.hpp"
#include "cli/json_view.hpp"
#include "cli/table.hpp"
#include "common/clock.hpp"
#include "common/text.hpp"
#include "coordinator/admin/target.hpp"

namespace gleaner::cli {
namespace {

std::string state_text(JsonView device) {
  if (device["revoked"].flag()) return "revoked";
  if (device["quarantined"].flag()) return "quarantined";
  if (!device["connected"].flag()) return "away";
  if (!device["declined"].text().empty()) return "declined";
  return device["open_plan"].count() > 0 ? "working" : "connected";
}

void print_devices(const std::vector<JsonView>& devices, std::ostream& out) {
  if (devices.empty()) {
    out << "No device has connected yet.\n";
    return;
  }
  Table table({{"DEVICE"},
               {"STATE"},
               {"ADDRESS"},
               {"LAST SEEN"},
               {"SAMPLES", Align::right},
               {"SAMPLES/S", Align::right},
               {"UPLINK", Align::right},
               {"DOWNLINK", Align::right},
               {"SENT", Align::right},
               {"RECEIVED", Align::right}});
  const std::int64_t now_ms = system_clock().wall_unix_ms();
  for (const JsonView device : devices) {
    const double speed = device["samples_per_s"].number().value_or(0.0);
    const std::string address = device["address"].text();
    table.add({device["name"].text(), state_text(device), address.empty() ? "-" : address,
               device["connected"].flag() ? "now" : human_time(device["last_seen_unix_ms"].time_ms(), now_ms),
               std::to_string(device["samples"].count()), speed > 0 ? fmt::format("{:.3g}", speed) : "-",
               human_rate(device["uplink_bytes_per_s"].number().value_or(0.0)),
               human_rate(device["downlink_bytes_per_s"].number().value_or(0.0)),
               human_bytes(device["up_bytes"].number().value_or(0.0)),
               human_bytes(device["down_bytes"].number().value_or(0.0))});
  }
  table.print(out);
  for (const JsonView device : devices) {
    const std::string why = device["declined"].text();
    if (!why.empty()) out << fmt::format("\n{} does not work: {}\n", device["name"].text(), why);
  }
}

int list_devices(Console& console, const CommonOptions& common) {
  return with_coordinator(console, common, [&](AdminClient& client) -> Status {
    GLEANER_ASSIGN(const std::string reply, client.get("/v1/devices"));
    if (common.json) {
      console.out << reply;
      return {};
    }
    GLEANER_ASSIGN(const boost::json::value value, parse_reply(reply));
    print_devices(JsonView(value)["devices"].items(), console.out);
    return {};
  });
}

struct Verb {
  std::string name;
  std::string help;
  std::string done;
};

struct Change {
  std::string device;
  bool unseen = false;
};

int change_device(Console& console, const CommonOptions& common, const Change& change, const Verb& verb) {
  return with_coordinator(console, common, [&](AdminClient& client) -> Status {
    const std::string& name = change.device;
    const std::string target =
        fmt::format("/v1/devices/{}/{}{}", admin::encode_component(name), verb.name, change.unseen ? "?unseen=1" : "");
    GLEANER_ASSIGN(const std::string reply, client.post(target));
    console.out << (common.json ? reply : fmt::format("Device {} {}.\n", name, verb.done));
    return {};
  });
}

}  // namespace

void add_device_commands(CLI::App& root, Invocation& invocation) {
  auto* group = root.add_subcommand("devices", "Who has connected, from where, how fast");
  const auto list = [&invocation] {
    invocation.action = [&invocation](Console& console) { return list_devices(console, invocation.common); };
  };
  group->require_subcommand(0, 1);
  group->callback([&invocation, list] {
    if (!invocation.action) list();
  });
  group->add_subcommand("list", "All devices (also without `list`)")->callback(list);
  const Verb verbs[] = {{"revoke", "Turn a device away, now and later", "is turned away from now on"},
                        {"allow", "Let a revoked device in again", "may connect again"}};
  for (const Verb& verb : verbs) {
    auto* command = group->add_subcommand(verb.name, verb.help);
    const auto change = std::make_shared<Change>();
    command->add_option("NAME", change->device, "The device, as its certificate names it")->required();
    if (verb.name == "revoke") command->add_flag("--unseen", change->unseen, "Also one that has never connected");
    command->callback([&invocation, change, verb] {
      invocation.action = [&invocation, change, verb](Console& console) {
        return change_device(console, invocation.common, *change, verb);
      };
    });
  }
}

}  // namespace gleaner::cli
