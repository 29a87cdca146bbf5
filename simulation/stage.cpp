#include "simulation/stage.hpp"

#include "training/blas.hpp"

namespace gleaner::simulation {

Result<std::unique_ptr<Stage>> Stage::set(Experiment experiment) {
  std::unique_ptr<Stage> stage(new Stage(std::move(experiment)));
  set_blas_threads(1);
  GLEANER_ASSIGN(const Backend backend, parse_backend(stage->experiment_.backend));
  GLEANER_ASSIGN(stage->kernels_, kernels_for(backend));
  GLEANER_ASSIGN(auto data, load_population(stage->experiment_));
  stage->evaluation_ = std::make_shared<const Dataset>(std::move(data.test));
  stage->data_ = std::make_unique<PartitionedData>(std::move(data));
  GLEANER_ASSIGN(stage->devices_, make_devices(stage->experiment_.devices, stage->experiment_.run.spec.seed));
  GLEANER_TRY(check_deadline(stage->experiment_, *stage->devices_));
  stage->pool_ = std::make_unique<WorkerPool>(stage->experiment_.threads);
  return stage;
}

Federation::Needs Stage::needs(const std::string& folder) {
  return {.experiment = &experiment_,
          .devices = devices_.get(),
          .data = data_.get(),
          .evaluation = evaluation_,
          .pool = pool_.get(),
          .kernels = kernels_,
          .folder = folder};
}

}  // namespace gleaner::simulation
