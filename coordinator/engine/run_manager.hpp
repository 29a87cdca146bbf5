#pragma once
// The runs of a coordinator: several exist, one is active at a time, the others wait in the order in which they were
// started. Loop thread only.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/engine/run_engine.hpp"

namespace gleaner {

class RunManager {
 public:
  struct Needs {
    Database* database = nullptr;
    const KernelTable* kernels = nullptr;
    Outbox* outbox = nullptr;
    Executors executors;
    std::function<std::uint64_t()> random64;
    std::function<void()> on_activated;   // a run takes offers now
    std::function<void(RunId)> on_ended;  // a run will not plan any more
    std::function<void(Error)> on_fatal;
  };

  explicit RunManager(Needs needs);

  // Blocking, before the threads run: activates the oldest run that is not over. An Error when its recovery fails.
  Status begin();
  void stop();

  // The active run; null when there is none, or while it is being recovered.
  RunEngine* active() { return engine_.get(); }

  using Done = std::function<void(Result<RunStatus>)>;
  void start_run(const std::string& toml, const std::string& path, Done done);
  void pause_run(const std::string& name, Done done);
  void resume_run(const std::string& name, Done done);
  void stop_run(const std::string& name, Done done);
  void list(std::function<void(Result<std::vector<RunStatus>>)> done);

 private:
  struct Opened {
    RunRow row;
    std::shared_ptr<RunEngine> engine;
  };
  Result<Opened> open(RunId run);  // storage thread or before it exists
  void activate_next();
  void take_over(Opened opened);
  void end_active(RunState state, Done done);
  void change_lineage(const std::string& reason);
  void with_row(const std::string& name, std::function<void(Result<RunRow>)> then);
  RunEngine::Needs engine_needs();

  Needs needs_;
  std::shared_ptr<RunEngine> engine_;
  bool activating_ = false;
  bool stopped_ = false;
};

// What a run that is not active looks like.
RunStatus status_of_row(const RunRow& row, const RunTotals& totals);

}  // namespace gleaner
