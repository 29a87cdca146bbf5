#include "cli/demo/federation.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>

#include "cli/json_view.hpp"
#include "coordinator/admin/client.hpp"
#include "coordinator/admin/target.hpp"
#include "protocol/pki/issue.hpp"

namespace gleaner::cli {
namespace {

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) return fail(ErrorCode::fatal, "cannot write " + path);
  return {};
}

}  // namespace

Status Federation::write_files() {
  const std::string& dir = spec_.directory;
  std::error_code ec;
  std::filesystem::create_directories(dir + "/pki", ec);
  if (ec) return fail(ErrorCode::bad_input, fmt::format("cannot make {}: {}", dir, ec.message()));
  const auto validity = pki::Validity::days(system_clock().wall_unix_ms() / 1000, 30);
  const pki::KeyFiles ca{dir + "/pki/ca.pem", dir + "/pki/ca.key"};
  GLEANER_TRY(pki::make_ca("Gleaner demonstration", validity, ca));
  const auto issue = [&](pki::Role role, const std::string& name, std::vector<std::string> addresses) {
    return pki::issue_certificate(ca,
                                  {.role = role, .name = name, .addresses = std::move(addresses), .validity = validity},
                                  {dir + "/pki/" + name + ".pem", dir + "/pki/" + name + ".key"});
  };
  GLEANER_TRY(issue(pki::Role::coordinator, "coordinator", {"localhost", "127.0.0.1"}));
  GLEANER_TRY(
      write_file(dir + "/coordinator.toml",
                 "[coordinator]\nlisten = \"127.0.0.1:0\"\ndatabase = \"gleaner.db\"\n\n"
                 "[tls]\nca = \"pki/ca.pem\"\ncertificate = \"pki/coordinator.pem\"\nkey = \"pki/coordinator.key\"\n\n"
                 "[admin]\nsocket = \"gleaner.sock\"\nhttp = \"127.0.0.1:0\"\n"));
  for (std::uint32_t i = 0; i < spec_.clients; ++i)
    GLEANER_TRY(issue(pki::Role::device, fmt::format("device-{:02}", i), {}));
  return write_file(
      dir + "/run.toml",
      fmt::format("[run]\nname = \"{}\"\nrecipe = \"{}\"\nrounds = {}\nseed = {}\nreproducible = true\n\n[model]\nname "
                  "= \"{}\"\n\n"
                  "[data]\nname = \"fashion-mnist\"\nevaluation = \"{}\"\n\n[training]\nlearning_rate = {}\n\n"
                  "[cohort]\nsize = {}\nmin_devices = {}\n{}",
                  spec_.name, spec_.recipe, spec_.rounds, spec_.seed, spec_.model, spec_.data, spec_.learning_rate,
                  spec_.clients, spec_.clients,
                  spec_.rule.empty() ? "" : fmt::format("\n[upload]\nrule = \"{}\"\n", spec_.rule)));
}

Status Federation::start_coordinator() {
  std::array<int, 2> ready{};
  if (::pipe2(ready.data(), O_CLOEXEC) != 0) return fail(ErrorCode::fatal, "cannot make a pipe");
  const std::string& dir = spec_.directory;
  const Status started =
      processes_.start("the coordinator", "gleaner-coordinator",
                       {"serve", "--config", dir + "/coordinator.toml", "--ready-fd", std::to_string(ready[1])},
                       dir + "/coordinator.log", ready[1]);
  ::close(ready[1]);
  auto line = started ? read_line(ready[0], std::chrono::seconds(20)) : Result<std::string>(fail(started.error()));
  ::close(ready[0]);
  if (!line) {
    if (const auto dead = processes_.ended_early()) return fail(*dead);
    return fail(line.error().within("the coordinator does not come up"));
  }
  port_ = static_cast<std::uint16_t>(std::stoul(*line));
  return {};
}

Status Federation::start_run() {
  std::ifstream file(spec_.directory + "/run.toml");
  const std::string toml((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  GLEANER_ASSIGN(auto client, AdminClient::connect(socket()));
  GLEANER_TRY(client.post("/v1/runs?path=" + admin::encode_component(spec_.directory + "/run.toml"), toml));
  return {};
}

Status Federation::start() {
  GLEANER_TRY(write_files());
  GLEANER_TRY(start_coordinator());
  GLEANER_TRY(start_run());
  const std::string& dir = spec_.directory;
  for (std::uint32_t i = 0; i < spec_.clients; ++i) {
    const std::string name = fmt::format("device-{:02}", i);
    GLEANER_TRY(
        write_file(fmt::format("{}/{}.toml", dir, name),
                   fmt::format("[client]\ncoordinator = \"127.0.0.1:{}\"\nstate_directory = \"{}.state\"\n\n"
                               "[tls]\nca = \"pki/ca.pem\"\ncertificate = \"pki/{}.pem\"\nkey = \"pki/{}.key\"\n\n"
                               "[data.fashion-mnist]\npath = \"{}\"\nsplit = \"dirichlet\"\nalpha = 0.5\ndevices = "
                               "{}\nindex = {}\nsplit_seed = {}\n",
                               port_, name, name, name, spec_.data, spec_.clients, i, spec_.seed)));
    GLEANER_TRY(processes_.start(name, "gleaner-client", {"run", "--config", fmt::format("{}/{}.toml", dir, name)},
                                 fmt::format("{}/{}.log", dir, name)));
  }
  return {};
}

Result<Progress> Federation::look() {
  if (const auto dead = processes_.ended_early()) return fail(*dead);
  GLEANER_ASSIGN(auto client, AdminClient::connect(socket()));
  GLEANER_ASSIGN(const auto run_text, client.get("/v1/runs/" + spec_.name + "?rounds=1"));
  GLEANER_ASSIGN(const auto devices_text, client.get("/v1/devices"));
  GLEANER_ASSIGN(const auto run_json, parse_reply(run_text));
  GLEANER_ASSIGN(const auto devices_json, parse_reply(devices_text));
  const JsonView run = JsonView(run_json)["run"];
  Progress progress{.state = run["state"].text(),
                    .phase = run["phase"].text(),
                    .waiting_for = run["waiting_for"].text(),
                    .version = static_cast<std::uint32_t>(run["version"].count()),
                    .accuracy = run["evaluation"]["accuracy"].number(),
                    .evaluated = static_cast<std::uint32_t>(run["evaluation"]["version"].count()),
                    .uploads = run["counters"]["uploads"].count(),
                    .skips = run["counters"]["skips"].count(),
                    .model_hash = run["model_hash"].text()};
  // Counted at every device's socket from its first byte on: handshakes, framing and all.
  for (const JsonView device : JsonView(devices_json)["devices"].items()) {
    progress.up_bytes += device["up_bytes"].count();
    progress.down_bytes += device["down_bytes"].count();
  }
  return progress;
}

void Federation::stop() { processes_.stop(std::chrono::seconds(5)); }

}  // namespace gleaner::cli
