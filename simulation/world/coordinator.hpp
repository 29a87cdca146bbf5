#pragma once
// The coordinator in virtual time: the service's engine, planner and database, and in place of its sockets the other
// ends of the virtual lines. Answers what the service answers, frame by frame. One owner.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "coordinator/engine/run_engine.hpp"
#include "simulation/world/names.hpp"
#include "simulation/world/network.hpp"
#include "simulation/world/virtual_time.hpp"
#include "training/cohort_trainer.hpp"

namespace gleaner::simulation {

class Coordinator final : public Outbox {
 public:
  // There is one run, and it begins once: the same in every experiment.
  static constexpr RunId kRun{42};
  static constexpr Lineage kLineage{7};

  struct Needs {
    VirtualTime* time = nullptr;
    VirtualNetwork* network = nullptr;
    const Names* names = nullptr;
    WorkerPool* pool = nullptr;  // evaluates
    const KernelTable* kernels = nullptr;
    std::shared_ptr<const Dataset> evaluation;  // null: none
    std::string database;                       // its file
    RunSettings settings;
    std::uint32_t devices = 0;
    std::function<bool()> disk_is_full;  // of the virtual disk; none: never
    std::function<void()> on_progress;
    std::function<void()> on_finished;
    std::function<void(Error)> on_fatal;
  };
  explicit Coordinator(Needs needs);
  ~Coordinator() override;

  Status create_run();  // in a new database
  // Opens the database and recovers the run. Blocking, no virtual time passes.
  Status open();
  void start();  // then lines may open
  // As kill -9 does: what is not in the database is gone.
  void crash();
  bool is_up() const { return engine_ != nullptr; }

  RunEngine& engine() { return *engine_; }
  const RunEngine& engine() const { return *engine_; }
  Database& database() { return *front_; }
  RunId run() const { return row_.id; }
  Lineage lineage() const { return row_.lineage; }

  // From the lines.
  void connected(std::uint32_t device);
  void disconnected(std::uint32_t device);
  void arrived(std::uint32_t device, const Bytes& frame, Duration sending);
  // What the device says it holds; after a checkpoint it does so without a line.
  void accept(std::uint32_t device, const Accept& accept);

  // Outbox.
  void send(const DeviceName& device, const Message& message) override;
  void send_plan(const DeviceName& device, const Plan& plan, std::shared_ptr<const Bytes> sync) override;
  void send_to_all(const Message& message) override;
  void payload_released(std::uint64_t) override {}
  SocketBytes socket_bytes() const override;

  std::uint32_t accepted() const { return accepted_; }  // devices that take part now

  // Rates that devices showed, for a checkpoint; the service keeps them in its database.
  void remember_all_rates();
  void save_rates(ByteWriter& out) const;
  bool restore_rates(ByteReader& in);

 private:
  struct Rates {
    double uplink_bytes_per_s = 0.0;
    double downlink_bytes_per_s = 0.0;
    double samples_per_s = 0.0;
  };
  struct Upload {
    Update meta;
    Bytes bytes;
    Duration sending{};
  };
  enum class Member : std::uint8_t { away, connected, greeted, accepted };

  Executors executors();
  void evaluate_in_pool(Job job);
  void receive(std::uint32_t device, const Message& message, Duration sending);
  void receive(std::uint32_t device, const Hello& hello);
  void receive(std::uint32_t device, const Accept& accept);
  void receive(std::uint32_t device, const Update& update, Duration sending);
  void finish_upload(std::uint32_t device, Upload upload);
  void protocol_error(std::uint32_t device, const std::string& what);
  void send_encoded(std::uint32_t device, std::shared_ptr<const Bytes> frame);
  void remember_rates(std::uint32_t device);
  void set_member(std::uint32_t device, Member member);

  Needs needs_;
  RunRow row_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<Database> front_;  // of database_
  std::shared_ptr<RunEngine> engine_;
  std::uint64_t life_ = 0;  // jobs of an earlier one are lost
  std::map<round::Timer, std::uint64_t> timers_;
  std::uint64_t timers_started_ = 0;
  std::vector<Member> members_;
  std::uint32_t accepted_ = 0;  // of members_
  std::unordered_map<std::uint32_t, Upload> uploads_;
  std::unordered_map<std::uint32_t, PlanId> ignored_;
  std::map<std::uint32_t, Rates> rates_;
  std::shared_ptr<const Bytes> offer_;  // encoded; the same for all
};

}  // namespace gleaner::simulation
