#pragma once
// A backend with two runs and three devices that remembers what was asked of it, and a server in front of it on a
// thread of its own.

#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/admin/backend.hpp"
#include "coordinator/admin/server.hpp"
#include "protocol/link/tls_context.hpp"
#include "protocol/pki/issue.hpp"

namespace gleaner {

RunStatus sample_run(const std::string& name);
DeviceStatus sample_device(const std::string& name, std::uint64_t bytes);
Overview sample_overview();
ExportedModel sample_model(const std::string& model);

class FakeBackend : public AdminBackend {
 public:
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

  // From any thread.
  void fail_with(std::optional<Error> error);  // every answer from now on
  void hold(bool held);                        // keeps answers back
  void release();                              // gives the answers that were kept back; on the loop
  void set_serving(bool serving);
  std::vector<std::string> calls() const;
  std::size_t held_count() const;

 private:
  template <class T>
  void answer(std::string call, Done<T> done, Result<T> result);
  void change(const std::string& call, const std::string& name, RunState state, Done<RunStatus> done);

  mutable std::mutex mutex_;
  std::vector<std::string> calls_;
  std::optional<Error> error_;
  std::vector<std::function<void()>> kept_;
  bool held_ = false;
  bool serving_ = true;
};

// Certificates of "ca" and of "other" for the TLS port: NAME.pem and NAME.key in a folder that goes with it.
class OperatorPki {
 public:
  OperatorPki();
  ~OperatorPki();

  void issue(const std::string& ca, pki::Role role, const std::string& name) const;
  std::string path(const std::string& name) const { return folder_ / name; }
  TlsContext server() const;  // for 127.0.0.1

 private:
  std::filesystem::path folder_;
};

// In a temporary folder of its own, which goes with it. With a context also on a TLS port.
class RunningServer {
 public:
  explicit RunningServer(const AdminLimits& limits = {}, const std::optional<TlsContext>& tls = {});
  ~RunningServer();

  FakeBackend& backend() { return backend_; }
  std::string socket() const { return folder_ / "gleaner.sock"; }
  std::filesystem::path folder() const { return folder_; }
  std::uint16_t http_port() const { return port_; }
  std::uint16_t tls_port() const { return tls_port_; }
  void deny(const std::string& serial);            // on the TLS port
  void on_loop(const std::function<void()>& job);  // waits for it
  void stop();                                     // and waits until nothing of it is left on the loop

 private:
  std::filesystem::path folder_;
  boost::asio::io_context loop_{1};  // goes after the backend, whose held answers have timers on it
  FakeBackend backend_;
  std::optional<AdminServer> server_;
  std::uint16_t port_ = 0;
  std::uint16_t tls_port_ = 0;
  std::string denied_;  // loop thread
  std::thread thread_;
};

std::filesystem::path make_temporary_folder();

}  // namespace gleaner
