#pragma once
// One piece of a device's work as a value: what it needs and what it leaves. Done by any thread, or by another process.

#include <memory>
#include <optional>
#include <vector>

#include "client/engine/device_run.hpp"
#include "client/session/session.hpp"
#include "simulation/world/names.hpp"
#include "simulation/world/sample_source.hpp"
#include "training/cohort_trainer.hpp"

namespace gleaner::simulation {

struct Settled {
  PlanId plan;
  Outcome outcome = Outcome::unknown;
};

struct JobRequest {
  std::uint32_t device = 0;
  Plan plan;  // its view is not used
  std::shared_ptr<const Bytes> sync;
  std::vector<Settled> settled;  // outcomes that the stored state does not know yet
  Instant began;
  Duration takes{};
  bool disk_is_full = false;
  bool wants_update = false;
  std::shared_ptr<const Bytes> state;  // null: it never took part
};

struct JobReply {
  std::optional<Error> error;  // the simulation cannot go on
  std::optional<session::Executed> done;
  std::shared_ptr<const Bytes> saved;  // the device's new state; null: nothing was stored
  std::vector<float> update;           // where it was wanted
};

// The same for all jobs of an experiment.
struct JobNeeds {
  const SampleSource* data = nullptr;
  const Names* names = nullptr;
  const KernelTable* kernels = nullptr;
  RunSpec spec;  // as it is offered
  Lineage lineage;
  ModelSpec model;
  std::vector<float> first_model;  // what every run of that seed begins with
};

JobReply do_job(const JobNeeds& needs, const JobRequest& request, WorkerScratch& scratch);

// A job in steps, so that many are trained at once in between. The request and the needs outlive it. One thread at a
// time.
class Job {
 public:
  Job(const JobNeeds& needs, const JobRequest& request);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Until there is something to train, or nothing: then the reply is there.
  void prepare();
  const DeviceRun::Training* training() const;
  std::optional<FusedSelection>& selection();  // of what is trained; see DeviceRun
  void finish(const Result<LocalResult>& trained);
  JobReply take_reply();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Between processes of one release. Decoding: corrupt, says what.
Bytes encode_request(const JobRequest& request);
Result<JobRequest> decode_request(ByteView bytes);
Bytes encode_reply(const JobReply& reply);
Result<JobReply> decode_reply(ByteView bytes);

}  // namespace gleaner::simulation
