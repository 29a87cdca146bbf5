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
  void revoke_device(const std::string& actor, const std::string& name, bool revoked, Done<void> done) override;
  void backup(const std::string& actor, const std::string& path, Done<void> done) override;
  void check_database(Done<void> done) override;
  void audit_log(std::uint32_t count, Done<std::vector<std::string>> done) override;
  std::string metrics() override;
  Health health() override;

 private:
  // Runs work(database) on the storage thread and gives its result to done on the loop.
  template <class T, class Work>
  void with_database(Work work, Done<T> done);
  void audit(const std::string& actor, const std::string& action, const std::string& detail);
  std::vector<DeviceStatus> merge(std::vector<DeviceRow> rows) const;

  RunManager& runs_;
  Server& server_;
  Database& database_;
  Executors executors_;
};

}  // namespace gleaner
