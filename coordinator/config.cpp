#include "coordinator/config.hpp"

#include <fmt/format.h>

#include "config/paths.hpp"
#include "config/reading.hpp"
#include "config/reference.hpp"
#include "config/units.hpp"

namespace gleaner {
namespace {

using config::Need;
using config::Section;

constexpr std::uint64_t kMebibyte = 1ULL << 20;
constexpr std::uint64_t kTebibyte = 1ULL << 40;

Section coordinator_section(CoordinatorConfig& c) {
  return {"coordinator",
          "The service and its database.",
          {{.name = "listen",
            .kind = config::endpoint(c.listen.host, c.listen.port, config::Ports::any_free_too),
            .description = "Where devices connect; the port is 7433 when it is left out."},
           {.name = "database",
            .kind = config::file_to_write(c.database),
            .description = "The SQLite database with all runs; made when it is not there."},
           {.name = "workers",
            .kind = config::integer(c.workers, {0, 1024}),
            .description = "Threads that decode, fold and step; 0 is one for each core."},
           {.name = "backend",
            .kind = config::one_of(c.backend, {"auto", "cpu", "cuda", "reference"}),
            .description = "What the kernels run on; `auto` says in the log what it chose."}}};
}

Section tls_section(CoordinatorConfig& c) {
  return {"tls",
          "Files in PEM format. They are read again on SIGHUP.",
          {{.name = "ca",
            .kind = config::readable_file(c.ca),
            .description = "Certificates of the authorities that may vouch for devices and operators.",
            .need = Need::required},
           {.name = "certificate",
            .kind = config::readable_file(c.certificate),
            .description = "The coordinator's certificate, with the intermediate ones after it.",
            .need = Need::required},
           {.name = "key",
            .kind = config::readable_file(c.key),
            .description = "The private key of the certificate.",
            .need = Need::required},
           {.name = "deny_list",
            .kind = config::readable_file(c.deny_list),
            .description = "Certificate serials and device names that are turned away, one a line."}}};
}

Section admin_section(CoordinatorConfig& c) {
  return {"admin",
          "For operators.",
          {{.name = "socket",
            .kind = config::unix_socket(c.admin_socket),
            .description = "The Unix socket that the command line tool talks to."},
           {.name = "tls",
            .kind = config::endpoint(c.operators.host, c.operators.port, config::Ports::any_free_too),
            .description = "Where operators with a certificate may do the same from elsewhere; the port is 7434 when "
                           "it is left out."},
           {.name = "http",
            .kind = config::endpoint(c.http.host, c.http.port, config::Ports::any_free_too),
            .description = "Where the status page, /metrics, /healthz and /readyz are served; the port is 7480 when it "
                           "is left out."}}};
}

Section limits_section(CoordinatorConfig& c) {
  return {"limits",
          "What devices may demand of this machine.",
          {{.name = "connections_max",
            .kind = config::integer(c.connections_max, {1, 1'000'000}),
            .description = "Devices connected at once; the next ones are turned away."},
           {.name = "inflight_bytes_max",
            .kind = config::byte_size(c.inflight_bytes_max, {kMebibyte, kTebibyte}),
            .description = "Bytes of uploads that are held before they are folded, over all devices."},
           {.name = "payload_bytes_per_device_max",
            .kind = config::byte_size(c.payload_bytes_per_device_max, {kMebibyte, kTebibyte}),
            .description = "Bytes of one upload; a larger one is refused before it is held."},
           {.name = "heartbeat",
            .kind = config::duration(c.heartbeat, {std::chrono::seconds(1), std::chrono::minutes(10)}),
            .description = "How often a silent connection is asked for a sign of life."},
           {.name = "handshake_timeout",
            .kind = config::duration(c.handshake_timeout, {std::chrono::seconds(1), std::chrono::minutes(5)}),
            .description = "How long a new connection may take to prove who it is."}}};
}

Section log_section(CoordinatorConfig& c) {
  return {"log",
          "What is logged, and where to.",
          {{.name = "level",
            .kind = config::log_level(c.log_level),
            .description = "The least important lines that are written."},
           {.name = "file",
            .kind = config::file_to_write(c.log_file),
            .description = "The file that lines are appended to; standard error when there is none."}}};
}

config::Schema schema_of(CoordinatorConfig& c) {
  return {{coordinator_section(c), tls_section(c), admin_section(c), limits_section(c), log_section(c)}};
}

bool is_wildcard(const std::string& host) { return host == "::" || host == "0.0.0.0"; }

struct Listener {
  std::string key;
  Endpoint at;
};

// Two on one port: the mistake is the later key's, if the file has it, or else the earlier one's.
void check_ports(const Listener& first, const Listener& second, config::Reading& reading) {
  if (!reading.sound({first.key, second.key}) || first.at.port == 0 || first.at.host.empty() || second.at.host.empty())
    return;
  const bool overlap = first.at.host == second.at.host || is_wildcard(first.at.host) || is_wildcard(second.at.host);
  if (first.at.port != second.at.port || !overlap) return;
  const bool given = reading.given(second.key);
  const Listener& other = given ? first : second;
  reading.mistake(given ? second.key : first.key,
                  fmt::format("listens on port {} like {} ({}), expected another port", first.at.port, other.key,
                              config::format_endpoint(other.at.host, other.at.port)));
}

void check_listeners(const CoordinatorConfig& c, config::Reading& reading) {
  const Listener devices{"coordinator.listen", c.listen};
  const Listener http{"admin.http", c.http};
  const Listener operators{"admin.tls", c.operators};
  check_ports(devices, http, reading);
  check_ports(devices, operators, reading);
  check_ports(http, operators, reading);
}

void check_files(const CoordinatorConfig& c, config::Reading& reading) {
  if (reading.sound({"coordinator.database", "admin.socket"}) && c.database == c.admin_socket) {
    reading.mistake("admin.socket",
                    fmt::format("is the path of coordinator.database: {}, expected another", c.database));
  }
}

}  // namespace

Result<CoordinatorConfig> load_coordinator_config(const std::string& path) {
  GLEANER_ASSIGN(const std::string text, config::read_file(path));
  CoordinatorConfig coordinator;
  config::Reading reading(text, path);
  reading.bind(schema_of(coordinator));
  check_listeners(coordinator, reading);
  check_files(coordinator, reading);
  GLEANER_TRY(reading.status());
  return coordinator;
}

std::string coordinator_config_reference() {
  CoordinatorConfig coordinator;
  return config::to_markdown(schema_of(coordinator), "###");
}

}  // namespace gleaner
