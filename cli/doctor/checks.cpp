#include "cli/doctor/checks.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "cli/doctor/certificates.hpp"
#include "cli/doctor/machine.hpp"
#include "cli/doctor/network.hpp"
#include "client/config.hpp"
#include "common/clock.hpp"
#include "common/text.hpp"
#include "config/document.hpp"
#include "coordinator/admin/unix_socket.hpp"
#include "coordinator/config.hpp"
#include "coordinator/run_settings.hpp"
#include "training/named_data.hpp"

namespace gleaner::cli {
namespace {

std::int64_t now_unix_s() { return system_clock().wall_unix_ms() / 1000; }

std::string machine_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// Whether a coordinator answers; what else may be wrong with its socket is said.
InUse check_admin_socket(const std::string& path, Findings& findings) {
  const auto state = admin::probe_socket(path);
  if (!state) {
    findings.fail(state.error());
    return InUse::wrong;
  }
  switch (*state) {
    case admin::SocketState::answers:
      findings.ok(fmt::format("the coordinator answers on {}", path));
      return InUse::fine;
    case admin::SocketState::stale:
      findings.ok(fmt::format("{} is left over from a coordinator that ended; the next start replaces it", path));
      return InUse::wrong;
    case admin::SocketState::absent: findings.ok(fmt::format("no coordinator is running ({} is not there)", path));
  }
  return InUse::wrong;
}

void check_dataset(const std::string& name, const std::string& path, Split split, Findings& findings) {
  const auto dataset = load_dataset({.name = name, .directory = path, .format = {}, .classes = 0}, split);
  if (!dataset) return findings.fail(dataset.error().within(name));
  findings.ok(fmt::format("{}: {} samples of {} features in {} classes at {}", name, dataset->samples,
                          dataset->features, dataset->classes, path));
}

}  // namespace

void check_coordinator(const std::string& file, Findings& findings) {
  const auto config = load_coordinator_config(file);
  if (!config) return findings.fail(config.error());
  findings.ok(fmt::format("{} is a valid configuration of a coordinator", file));
  check_clock(now_unix_s(), findings);
  const TlsFiles files{config->ca, config->certificate, config->key};
  check_coordinator_certificate(files, {config->listen.host, machine_name()}, now_unix_s(), findings);
  const InUse in_use = check_admin_socket(config->admin_socket, findings);
  check_port("coordinator.listen", config->listen.host, config->listen.port, in_use, findings);
  check_port("admin.http", config->http.host, config->http.port, in_use, findings);
  if (!config->operators.host.empty())
    check_port("admin.tls", config->operators.host, config->operators.port, in_use, findings);
  check_database_file(config->database, findings);
  check_open_files(config->connections_max, findings);
  check_backend(config->backend, findings);
}

void check_client(const std::string& file, Findings& findings) {
  const auto config = load_client_config(file);
  if (!config) return findings.fail(config.error());
  findings.ok(fmt::format("{} is a valid configuration of a client", file));
  check_clock(now_unix_s(), findings);
  const TlsFiles files{config->ca, config->certificate, config->key};
  check_device_certificate(files, now_unix_s(), findings);
  check_space_for(config->state_directory, findings);
  for (const auto& [name, binding] : config->data) {
    check_dataset(fmt::format("data {}", name), binding.path, Split::train, findings);
  }
  check_backend(config->backend, findings);
  const std::string server_name = config->server_name.empty() ? config->host : config->server_name;
  check_way({.host = config->host, .port = config->port, .server_name = server_name, .files = files}, findings);
}

void check_run(const std::string& file, Findings& findings) {
  const auto text = config::read_file(file);
  if (!text) return findings.fail(text.error());
  const auto settings = parse_run_settings(*text, file);
  if (!settings) return findings.fail(settings.error());
  findings.ok(fmt::format("{} is a valid run: {} with {} on {}, {} parameters, {} rounds", file, settings->spec.name,
                          settings->spec.recipe, settings->spec.data, settings->spec.dimension, settings->rounds));
  if (settings->evaluation_data.empty()) {
    return findings.warn("the run has no held-out data, so that its accuracy will not be known",
                         "name a folder as its evaluation data");
  }
  check_dataset("evaluation data", settings->evaluation_data, Split::test, findings);
}

}  // namespace gleaner::cli
