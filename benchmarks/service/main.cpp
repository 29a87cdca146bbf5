// bench_service [--json FILE] [--folder FOLDER] [--only NAME]: the service's figures, one line each.
// Exit status: 0 all met, 1 one is short, 2 it could not be measured.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "benchmarks/service/plain_peer.hpp"
#include "benchmarks/service/rows.hpp"
#include "common/log.hpp"

namespace {

using namespace gleaner;
using namespace gleaner::bench;

struct Group {
  const char* name;
  Status (*measure)(const Bed&, Rows&);
};
constexpr Group kGroups[] = {{"idle", measure_idle_connections},
                             {"round", measure_rounds},
                             {"arrivals", measure_arrivals},
                             {"client", measure_client}};

int measure(const std::string& folder, const std::string& only, const std::string& json) {
  const Machine machine = this_machine();
  fmt::print("{} cores, {}, {:.0f} GiB, {}\n", machine.cores, machine.processor, machine.memory_gib, machine.system);
  const auto bed = Bed::make(folder);
  if (!bed) {
    fmt::print(stderr, "bench: {}\n", bed.error().message());
    return 2;
  }
  Rows rows;
  bool met = true;
  for (const Group& group : kGroups) {
    if (!only.empty() && only != group.name) continue;
    const std::size_t before = rows.size();
    if (const Status status = group.measure(*bed, rows); !status) {
      fmt::print(stderr, "bench: {}: {}\n", group.name, status.error().message());
      return 2;
    }
    for (std::size_t i = before; i < rows.size(); ++i) {
      fmt::print("{}\n", to_line(rows[i]));
      met = met && rows[i].met();
    }
    std::fflush(stdout);
  }
  if (!json.empty()) {
    if (const Status written = write_json(json, rows); !written) {
      fmt::print(stderr, "bench: {}\n", written.error().message());
      return 2;
    }
  }
  return met ? 0 : 1;
}

// Modes in which this program is a child of itself.
struct Peer {
  TlsFiles files;
  PlainRound round;
  std::uint16_t port = 0;
  int ready_fd = -1;
};

void add_files(CLI::App& mode, Peer& peer) {
  mode.group("");
  mode.add_option("ca", peer.files.ca)->required();
  mode.add_option("certificate", peer.files.certificate)->required();
  mode.add_option("key", peer.files.key)->required();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Measures the service beside what the machine itself can do"};
  std::string json;
  std::string folder = std::filesystem::temp_directory_path().string();
  std::string only;
  Peer peer;
  app.add_option("--json", json, "also write the rows as JSON to this file");
  app.add_option("--folder", folder, "where databases and certificates go for the time being: the disk to measure");
  app.add_option("--only", only, "one group: idle, round, arrivals or client")
      ->check(CLI::IsMember({"idle", "round", "arrivals", "client"}));
  auto* const server = app.add_subcommand("plain-server");
  add_files(*server, peer);
  server->add_option("links", peer.round.links)->required();
  server->add_option("plan_bytes", peer.round.plan_bytes)->required();
  server->add_option("answer_bytes", peer.round.answer_bytes)->required();
  server->add_option("ready_fd", peer.ready_fd)->required();
  auto* const client = app.add_subcommand("plain-client");
  add_files(*client, peer);
  client->add_option("port", peer.port)->required();
  client->add_option("ready_fd", peer.ready_fd)->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (*server) return run_plain_server(peer.files, peer.round, peer.ready_fd);
  if (*client) return run_plain_client(peer.files, peer.port, peer.ready_fd);
  start_logging({.level = LogLevel::warn, .file = {}, .program = "bench_service"});
  return measure(folder, only, json);
}
