#pragma once
// A whole federation for one test: a PKI, data, configuration files, one coordinator and some clients as real processes
// over TLS, in a temporary folder that goes with the test. One thread.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "client/engine/device_run.hpp"
#include "coordinator/admin/client.hpp"
#include "protocol/link/tls_context.hpp"
#include "protocol/pki/issue.hpp"
#include "tests/integration/harness/process.hpp"

namespace gleaner::testing {

namespace json = boost::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Whatever a test waits for comes within this, on a slow machine and with sanitizers too.
inline constexpr seconds kPatience{60};

// Asks again and again until it holds; false when it never did.
bool eventually(const std::function<bool()>& holds, milliseconds patience = kPatience);

struct RunOptions {
  std::string name = "run";
  std::string recipe = "topk";
  std::uint32_t rounds = 12;
  std::uint32_t devices = 3;  // the cohort of a reproducible run, the least of another
  bool reproducible = true;
  std::string cohort;  // more lines of [cohort]
  std::string data = "toy";
};

struct ClientOptions {
  std::string certificate;  // by the name of its files; "": its own
  std::string ca = "ca";
  std::string state;        // folder; "": its own
  std::string server_name;  // "": none is given
  std::string retry_max = "200ms";
};

struct CoordinatorOptions {
  std::string certificate = "coordinator";
  std::string ca = "ca";
  std::string database = "coordinator.db";
  std::string limits = "heartbeat = \"30s\"\n";
  std::string tls;  // more lines of [tls]
};

using Environment = std::map<std::string, std::string>;
inline Environment kill_at(const std::string& failpoint) { return {{"GLEANER_FAILPOINT", failpoint}}; }

class World {
 public:
  explicit World(std::uint32_t devices);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const;
  std::string read(const std::string& name) const;
  std::uint16_t port() const { return port_; }
  std::uint16_t http_port() const { return http_port_; }

  // Certificates: "ca" and "other" are authorities; NAME.crt, NAME.key.
  void issue(const std::string& ca, const pki::CertificateRequest& request) const;
  pki::Validity valid() const;
  TlsFiles tls_files(const std::string& name, const std::string& ca = "ca") const;

  void configure(const CoordinatorOptions& options);
  void configure_client(std::uint32_t index, const ClientOptions& options = {});
  static std::string client_name(std::uint32_t index) { return "device-" + std::to_string(index); }

  // Waits until everything listens; a failure of the test when it ends instead.
  void start_coordinator(const Environment& environment = {});
  // Without waiting: it may end at once.
  Process& launch_coordinator(const Environment& environment = {});
  Process& start_client(std::uint32_t index, const Environment& environment = {});
  void start_clients();
  Process& coordinator() { return *coordinator_; }
  Process& client(std::uint32_t index) { return *clients_.at(index); }
  std::string log(const std::string& who) const { return read(who + ".log"); }
  std::string coordinator_log() const { return log("coordinator"); }
  std::string client_log(std::uint32_t index) const { return log(client_name(index)); }
  // Everything ends by SIGTERM with exit code 0, within seconds.
  void end_all();

  // The command line tool: its output, and its exit code where asked for.
  std::string gleaner(const std::vector<std::string>& arguments, int* exit_code = nullptr);

  static std::string run_file(const RunOptions& options);
  void start_run(const RunOptions& options);
  Result<std::string> ask(const std::string& target) const;
  Result<std::string> tell(const std::string& target, const std::string& body = {}) const;
  json::value get(const std::string& target) const;  // null when nobody answers
  std::string metrics() const;
  double metric(const std::string& line_start) const;  // 0 when there is none
  json::value run(const std::string& name = "run") const;
  std::uint32_t version(const std::string& name = "run") const;
  std::string state(const std::string& name = "run") const;
  std::string hash(const std::string& name = "run") const;
  bool reaches(std::uint32_t version, const std::string& name = "run");
  // The final model's hash; "" and a failure of the test when the run does not end.
  std::string finish(const std::string& name = "run");
  json::value device(const std::string& name) const;

  // What a device's newest state file holds of a run of these options.
  std::string state_file(std::uint32_t index) const;
  Result<DeviceState> device_state(std::uint32_t index, const RunOptions& options) const;

 private:
  void make_pki() const;
  void make_data() const;
  void reserve_port();

  std::string folder_;
  std::uint32_t devices_;
  std::uint16_t port_ = 0;
  std::uint16_t http_port_ = 0;
  int reserved_ = -1;
  std::unique_ptr<Process> coordinator_;
  std::map<std::uint32_t, std::unique_ptr<Process>> clients_;
};

// Lines of a text that contain a part.
std::size_t count_lines(const std::string& text, const std::string& part);

}  // namespace gleaner::testing
