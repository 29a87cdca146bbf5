#pragma once
// What an operator can ask of a coordinator. The administration server calls it on the loop thread; answers come on the
// loop thread, at once or later, exactly once. Every changing call is audited by the backend under the actor's name.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "coordinator/engine/run_engine.hpp"
#include "training/model.hpp"

namespace gleaner {

template <class T>
using Done = std::function<void(Result<T>)>;

struct RunDetail {
  RunStatus status;
  std::vector<RoundRow> rounds;  // the newest, oldest of them first
};

struct DeviceStatus {
  DeviceRow row;
  bool connected = false;
  std::string address;  // "192.0.2.7:50312", only for people
  std::uint32_t samples = 0;
  std::uint64_t open_plan = 0;
  std::uint32_t flaps = 0;  // reconnects within the last minutes
  bool quarantined = false;
  std::string declined;  // why it does not work for the run, in its own words; empty: it does
};

struct ExportedModel {
  std::string run;
  ModelSpec spec;
  std::vector<float> parameters;
  Version version;
  std::uint64_t hash = 0;
};

struct Health {
  bool suspended = false;  // devices are not served: nothing can be stored
  std::string reason;      // why; empty when it serves
  std::string detail;      // "run demo: collecting, round 12 of 60"
};

// What the status page shows. May lag behind by a second, and behind a database that is busy.
struct Overview {
  Health health;
  std::vector<RunStatus> runs;  // the newest, oldest of them first
  std::string shown;            // the run that rounds are of: the active one, or the newest; empty: none
  std::vector<RoundRow> rounds;
  std::vector<DeviceStatus> devices;
};

constexpr std::uint32_t kRunsSeenMax = 100;    // in metrics and on the page, the newest
constexpr std::uint32_t kRoundsSeenMax = 500;  // on the page

class AdminBackend {
 public:
  virtual ~AdminBackend() = default;
  virtual void list_runs(Done<std::vector<RunStatus>> done) = 0;
  virtual void show_run(const std::string& name, std::uint32_t rounds, Done<RunDetail> done) = 0;
  virtual void start_run(const std::string& actor, const std::string& toml, const std::string& path,
                         Done<RunStatus> done) = 0;
  virtual void pause_run(const std::string& actor, const std::string& name, Done<RunStatus> done) = 0;
  virtual void resume_run(const std::string& actor, const std::string& name, Done<RunStatus> done) = 0;
  virtual void stop_run(const std::string& actor, const std::string& name, Done<RunStatus> done) = 0;
  virtual void export_run(const std::string& name, Done<ExportedModel> done) = 0;
  virtual void list_devices(Done<std::vector<DeviceStatus>> done) = 0;
  virtual void revoke_device(const std::string& actor, const std::string& name, Database::Unseen unseen,
                             Done<void> done) = 0;
  virtual void allow_device(const std::string& actor, const std::string& name, Done<void> done) = 0;
  virtual void backup(const std::string& actor, const std::string& path, Done<void> done) = 0;
  virtual void check_database(Done<void> done) = 0;
  virtual void audit_log(std::uint32_t count, Done<std::vector<std::string>> done) = 0;
  virtual void metrics(Done<std::string> done) = 0;  // Prometheus text format
  virtual void overview(Done<Overview> done) = 0;
  virtual Health health() = 0;
};

}  // namespace gleaner
