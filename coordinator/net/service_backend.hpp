#pragma once
// Answers the operator from the running service. Loop thread only.

#include "coordinator/admin/backend.hpp"
#include "coordinator/engine/run_manager.hpp"
#include "coordinator/net/server.hpp"

namespace gleaner {

class ServiceBackend final : public AdminBackend {
 public:
  // Everything must outlive the backend; the database is touched in storage jobs only.
  ServiceBackend(RunManager& runs, Server& server, Database& database, Executors executors);

  void list_runs(Done<std::vector<RunStatus>> done) override;
  void show_run(const std::string& name, std::uint32_t rounds, Done<RunDetail> done) override;
  void start_run(const std::string& actor, const std::string& toml, const std::string& path,
                 Done<RunStatus> done) override;
  void pause_run(const std::string& actor, const std::string& name, Done<RunStatus> done) override;
  void resume_run(const std::string& actor, const std::string& name, Done<RunStatus> done) override;
  void stop_run(const std::string& actor, const std::string& name, Done<RunStatus> done) override;
  void export_run(const std::string& name, Done<ExportedModel> done) override;
  void list_devices(Done<std::vector<DeviceStatus>> done) override;
  void revoke_device(const std::string& actor, const std::string& name, Database::Unseen unseen,
                     Done<void> done) override;
  void allow_device(const std::string& actor, const std::string& name, Done<void> done) override;
  void backup(const std::string& actor, const std::string& path, Done<void> done) override;
  void check_database(Done<void> done) override;
  void audit_log(std::uint32_t count, Done<std::vector<std::string>> done) override;
  void metrics(Done<std::string> done) override;
  void overview(Done<Overview> done) override;
  Health health() override;

 private:
  // Runs work(database) on the storage thread and gives its result to done on the loop.
  template <class T, class Work>
  void with_database(Work work, Done<T> done);
  void audit(const std::string& actor, const std::string& action, const std::string& detail);
  std::vector<DeviceStatus> merge(std::vector<DeviceRow> rows) const;
  std::vector<DeviceStatus> devices_now() const;

  // What metrics and the status page need of the database. Read at most once a second and once at a time: whoever asks
  // meanwhile, or while the database is busy, gets what was read last.
  struct Seen {
    std::vector<RunStatus> runs;
    RunId shown;
    std::string shown_name;
    std::vector<RoundRow> rounds;
  };
  static Result<Seen> read_seen(Database& database, const std::vector<RunStatus>& known, RunId active);
  void look(Done<void> done);
  std::vector<RunStatus> runs_now() const;

  RunManager& runs_;
  Server& server_;
  Database& database_;
  Executors executors_;
  std::optional<Seen> seen_;
  Instant seen_at_;
  RunId seen_active_;
  bool looking_ = false;
  std::vector<Done<void>> waiting_;  // for the first look; as many as the listeners let in
};

}  // namespace gleaner
