#pragma once
// Everything that an experiment needs before its first moment: data, partition, devices, threads. Blocking; reads
// files.

#include <memory>
#include <string>

#include "kernels/kernels.hpp"
#include "simulation/experiment.hpp"
#include "simulation/world/federation.hpp"
#include "simulation/world/partitioned_data.hpp"
#include "training/wave_trainer.hpp"

namespace gleaner::simulation {

class Stage {
 public:
  // Errors (bad_input, not_found, corrupt): what is wrong with a file, or does not go together.
  // ranks: what was joined, null for this process alone; it outlives the stage. The threads are then one a process
  // unless the experiment says otherwise, and rank 0 has one more for each other process, which waits for it.
  static Result<std::unique_ptr<Stage>> set(Experiment experiment, Ranks* ranks = nullptr);
  // Of every rank but 0: does jobs until rank 0 is done.
  void serve();

  const Experiment& experiment() const { return experiment_; }
  const PartitionedData& data() const { return *data_; }
  const Dataset& evaluation() const { return *evaluation_; }
  WorkerPool& pool() { return *pool_; }
  const Devices& devices() const { return *devices_; }
  const KernelTable& kernels() const { return *kernels_; }
  OutputLabel label() const { return {experiment_.run.spec.name, data_->all().label}; }

  // For a federation whose files lie in that folder.
  Federation::Needs needs(const std::string& folder);

 private:
  explicit Stage(Experiment experiment) : experiment_(std::move(experiment)) {}
  Status open_waves(Backend asked);

  Experiment experiment_;
  Ranks* ranks_ = nullptr;
  std::unique_ptr<PartitionedData> data_;
  std::shared_ptr<const Dataset> evaluation_;
  std::unique_ptr<Devices> devices_;
  std::unique_ptr<WorkerPool> pool_;
  const KernelTable* kernels_ = nullptr;
  std::unique_ptr<WaveTrainer> waves_;  // where the backend trains many at once
};

}  // namespace gleaner::simulation
