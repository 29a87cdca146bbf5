#pragma once
// The coordinator's own file: where it listens, its certificate, its database. Runs have files of their own.

#include <cstdint>
#include <string>

#include "common/clock.hpp"
#include "common/error.hpp"
#include "common/log.hpp"

namespace gleaner {

struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
};

struct CoordinatorConfig {
  Endpoint listen{"::", 7433};
  std::string ca, certificate, key;  // PEM
  std::string deny_list;             // file of certificate serials and device names, one a line; empty: none
  std::string database = "gleaner.db";
  std::string admin_socket = "gleaner.sock";  // Unix socket of the operator
  Endpoint operators{"", 7434};               // TLS, for remote operators; empty host: none
  Endpoint http{"127.0.0.1", 7480};           // status page, metrics, health
  std::uint32_t workers = 0;                  // threads for decoding, folding, stepping; 0 = cores
  std::uint32_t connections_max = 20'000;
  std::uint64_t inflight_bytes_max = 64ULL << 20;  // payload bytes held before they are folded
  std::uint64_t payload_bytes_per_device_max = 256ULL << 20;
  Duration heartbeat = std::chrono::seconds(30);
  Duration handshake_timeout = std::chrono::seconds(10);
  std::string backend = "auto";  // kernels
  LogLevel log_level = LogLevel::info;
  std::string log_file;
};

// Reads and checks the file; paths in it are relative to its folder. All mistakes at once; bad_input.
Result<CoordinatorConfig> load_coordinator_config(const std::string& path);

// The file's keys as Markdown, for the reference.
std::string coordinator_config_reference();

}  // namespace gleaner
