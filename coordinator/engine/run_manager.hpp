#pragma once
// The runs of a coordinator: several exist, one is active at a time, the others wait in the order in which they were
// started. Loop thread only.

#include <map>
#include <memory>
#include <optional>
#include <set>
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
  void timer_fired(round::Timer timer);
  // Why the end of a run, of which its devices know, waits for room in the database; empty: none does.
  std::string suspension() const;
  // The status of a run as it was read from the database, with what is known better.
  void correct(RunStatus& status) const;

  using Done = std::function<void(Result<RunStatus>)>;
  void start_run(const std::string& toml, const std::string& path, Done done);
  void pause_run(const std::string& name, Done done);
  void resume_run(const std::string& name, Done done);
  void stop_run(const std::string& name, Done done);
  void list(std::function<void(Result<std::vector<RunStatus>>)> done);

 private:
  struct Opened {
    RunId run;
    bool is_new = false;  // waited until now
    std::shared_ptr<RunEngine> engine;
  };
  Result<Opened> open(RunId run);  // storage thread or before it exists
  void activate_next();
  void activated();
  void when_settled(Job job);
  void take_over(Opened opened);
  void end_active(RunState state, Done done);
  bool is_active(const std::string& name) const;
  std::string its_turn() const;
  void store_state(RunState state, Done done);  // of the active run, which goes back when it cannot be stored
  void store_ends();
  void start_retry();
  Result<RunStatus> stop_waiting(const std::string& name);
  void change_lineage(const std::string& reason);
  RunEngine::Needs engine_needs(RunId run);

  Needs needs_;
  std::shared_ptr<RunEngine> engine_;
  bool activating_ = false;
  std::vector<Job> after_activating_;  // what is asked of the runs meanwhile
  struct Unstored {
    std::string name;
    RunEnd end;
    std::string why;
  };
  std::map<RunId, Unstored>
      unstored_;  // ends that a full disk did not take: no run is activated before they are stored
  bool storing_ = false;
  std::set<RunId> lineages_changed_;  // at most once a run and process, as decision 0002 says
  bool stopped_ = false;
};

// What a run that is not active looks like.
RunStatus status_of_row(const RunRow& row, const RunTotals& totals);

}  // namespace gleaner
