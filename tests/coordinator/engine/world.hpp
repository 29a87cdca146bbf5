#pragma once
// A federation in one thread under a made-up clock: the coordinator's real engine and database, the devices' real
// session and work, and between them frames that are encoded and decoded. What runs next is drawn from a seed, and so
// are the faults, so that a run replays from its seed. Not the simulator: it exists to be cruel in tests.

#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "client/engine/device_run.hpp"
#include "client/session/session.hpp"
#include "common/random.hpp"
#include "coordinator/engine/run_engine.hpp"

namespace gleaner {

class FakeClock final : public Clock {
 public:
  Instant now() const override { return now_; }
  std::int64_t wall_unix_ms() const override {
    return 1'700'000'000'000 + now_.since_start / std::chrono::milliseconds(1);
  }
  void advance_to(Instant t) { now_ = std::max(now_, t); }

 private:
  Instant now_{std::chrono::seconds(1)};
};

struct WorldSpec {
  std::string toml;  // of the run
  std::uint32_t devices = 5;
  std::uint64_t seed = 1;
  double disconnects = 0.0;  // chance that a step cuts a device's connection
  double device_crashes = 0.0;
  double coordinator_crashes = 0.0;
  double full_disks = 0.0;  // chance that a device finds no room for its state
  double thefts = 0.0;      // chance that another device answers a plan as its own does, a moment before or after
  bool reconnect_at_once = false;  // while the coordinator still works on what the last connection said
};

class World final : public Outbox {
 public:
  explicit World(WorldSpec spec);
  ~World() override;

  // Runs until the run is finished. False when it is stuck or takes too many steps.
  bool run_to_end(std::uint64_t steps_max = 2'000'000);

  RunStatus status() const { return engine_->status(); }
  std::vector<float> device_model(std::uint32_t i) { return device_state(i).model; }
  DeviceState device_state(std::uint32_t i);
  Database& database() { return *database_; }
  RunId run() const { return row_.id; }
  std::uint64_t crashes() const { return crashes_; }
  std::uint64_t unsaved() const { return unsaved_; }
  std::uint64_t thefts() const { return thefts_; }
  std::uint64_t thefts_refused() const { return thefts_refused_; }
  const std::string& fatal() const { return fatal_; }

  void send(const DeviceName& device, const Message& message) override;
  void send_plan(const DeviceName& device, const Plan& plan, std::shared_ptr<const Bytes> sync) override;
  void send_to_all(const Message& message) override;
  void payload_released(std::uint64_t bytes) override { held_bytes_ -= bytes; }
  SocketBytes socket_bytes() const override { return bytes_; }

 private:
  struct Device {
    DeviceName name;
    std::shared_ptr<const Dataset> samples;
    std::unique_ptr<StateStore> store;
    std::unique_ptr<session::Session> session;
    std::unique_ptr<DeviceRun> run;
    bool connected = false;
    bool greeted = false;
    bool accepted = false;
    std::uint64_t connection = 0;  // frames of an older one are lost
    std::uint64_t life = 0;        // work of an older one is lost
    std::optional<Instant> reconnect_at;
  };
  using Queue = std::deque<Job>;

  void open_coordinator();
  void crash_coordinator();
  void start_device(Device& device);
  void crash_device(Device& device);
  void cut(Device& device);
  void tick_faults();
  bool run_something();
  bool pass_time();
  Executors executors();
  Device& device_of(const DeviceName& name);

  void deliver(Device& device, Bytes frame);
  void from_device(Device& device, const Message& message);
  void dispatch(Device& device, const Message& message);
  void steal(const Device& from, const Update& update);
  void arrive(const DeviceName& device, const Update& update);
  void feed(Device& device, const session::Event& event);
  void perform(Device& device, session::Action action);
  void work(Device& device, std::function<session::Event()> job);

  WorldSpec spec_;
  Random random_;
  FakeClock clock_;
  std::filesystem::path folder_;
  RunSettings settings_;
  RunRow row_;
  std::unique_ptr<Database> database_;
  std::shared_ptr<RunEngine> engine_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::map<std::string, Queue> queues_;
  std::map<round::Timer, Instant> timers_;
  SocketBytes bytes_;
  std::uint64_t held_bytes_ = 0;
  std::uint64_t crashes_ = 0;
  std::uint64_t unsaved_ = 0;
  std::uint64_t thefts_ = 0;
  std::uint64_t thefts_refused_ = 0;
  std::set<std::pair<std::string, std::uint64_t>> stolen_;  // by whom, and which plan
  bool finished_ = false;
  std::string fatal_;
};

}  // namespace gleaner
