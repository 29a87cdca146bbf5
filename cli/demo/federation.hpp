#pragma once
// A whole federation on this machine: a private CA, one coordinator and some clients as processes over mutual TLS.

#include <optional>
#include <string>

#include "cli/demo/processes.hpp"
#include "common/error.hpp"

namespace gleaner::cli {

struct FederationSpec {
  std::string directory;      // everything lies here
  std::string name = "demo";  // of the run
  std::string recipe = "gsasg";
  std::string rule;  // of upload; empty: the recipe's
  std::string model = "mlp";
  std::string data;  // directory with IDX files
  std::uint32_t rounds = 60;
  std::uint32_t clients = 8;
  std::uint64_t seed = 1;
  double learning_rate = 0.05;
};

struct Progress {
  std::string state;
  std::string phase;
  std::string waiting_for;
  std::uint32_t version = 0;
  std::optional<double> accuracy;
  std::uint32_t evaluated = 0;
  std::uint64_t up_bytes = 0;
  std::uint64_t down_bytes = 0;
  std::uint64_t uploads = 0;
  std::uint64_t skips = 0;
  std::string model_hash;
};

class Federation {
 public:
  explicit Federation(FederationSpec spec) : spec_(std::move(spec)) {}

  Status start();
  // What the coordinator says now; the error of a process that died.
  Result<Progress> look();
  void stop();

  std::string database() const { return spec_.directory + "/gleaner.db"; }

 private:
  Status write_files();
  Status start_coordinator();
  Status start_run();
  std::string socket() const { return spec_.directory + "/gleaner.sock"; }

  FederationSpec spec_;
  Processes processes_;
  std::uint16_t port_ = 0;
};

}  // namespace gleaner::cli
