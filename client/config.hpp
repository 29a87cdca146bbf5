#pragma once
// A device's own file: which coordinator, its certificate, where its state lies, and which data it has by which name.

#include <cstdint>
#include <map>
#include <string>

#include "common/clock.hpp"
#include "common/error.hpp"
#include "common/log.hpp"

namespace gleaner {

// Data that this device offers under a name. A share of a common data set, for demonstrations and tests, is cut out by
// a split; a device with data of its own has none.
struct DataBinding {
  std::string path;   // directory with IDX files
  std::string split;  // "", "iid", "dirichlet"
  double alpha = 0.5;
  std::uint32_t devices = 1;
  std::uint32_t index = 0;
  std::uint64_t split_seed = 1;
  std::uint32_t samples_min = 10;
};

struct ClientConfig {
  std::string host;  // of the coordinator
  std::uint16_t port = 7433;
  std::string server_name;  // that its certificate must carry; empty: host
  std::string ca, certificate, key;
  std::string state_directory = "state";  // residuals and models, one subfolder a run
  std::map<std::string, DataBinding> data;
  std::string backend = "auto";
  Duration retry_min = std::chrono::seconds(1);
  Duration retry_max = std::chrono::minutes(5);
  LogLevel log_level = LogLevel::info;
  std::string log_file;
};

// Reads and checks the file; paths in it are relative to its folder. All mistakes at once; bad_input.
Result<ClientConfig> load_client_config(const std::string& path);

// The file's keys as Markdown, for the reference.
std::string client_config_reference();

}  // namespace gleaner
