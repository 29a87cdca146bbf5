#include "simulation/stage.hpp"

#include <algorithm>

#include "common/check.hpp"
#include "common/log.hpp"
#include "coordinator/engine/model_owner.hpp"
#include "training/blas.hpp"
#include "training/cuda/open.hpp"

namespace gleaner::simulation {

Result<std::unique_ptr<Stage>> Stage::set(Experiment experiment, Ranks* ranks) {
  std::unique_ptr<Stage> stage(new Stage(std::move(experiment)));
  set_blas_threads(1);
  GLEANER_ASSIGN(const Backend backend, parse_backend(stage->experiment_.backend));
  GLEANER_ASSIGN(stage->kernels_, kernels_for(backend));
  GLEANER_ASSIGN(auto data, load_population(stage->experiment_));
  stage->evaluation_ = std::make_shared<const Dataset>(std::move(data.test));
  stage->data_ = std::make_unique<PartitionedData>(std::move(data));
  GLEANER_ASSIGN(stage->devices_, make_devices(stage->experiment_.devices, stage->experiment_.run.spec.seed));
  GLEANER_TRY(check_deadline(stage->experiment_, *stage->devices_));
  if (ranks == nullptr || ranks->rank() == 0) GLEANER_TRY(stage->open_waves(backend));
  unsigned threads = stage->experiment_.threads;
  if (ranks != nullptr) {
    threads = std::max(threads, 1U);
    if (ranks->rank() == 0) threads += static_cast<unsigned>(ranks->size()) - 1;
  }
  stage->ranks_ = ranks;
  stage->pool_ = std::make_unique<WorkerPool>(std::min(threads, WorkerPool::kMaxThreads));
  return stage;
}

// With waves the table's own way to the GPU, one vector at a time there and back, is for nobody: the bits are the same.
Status Stage::open_waves(Backend asked) {
  if (kernels_->name != "cuda") return {};
  GLEANER_ASSIGN(const ModelSpec model, model_of(experiment_.run));
  auto waves = open_wave_trainer(model, data_->all().train);
  if (waves) {
    waves_ = std::move(*waves);
  } else if (asked == Backend::cuda) {
    return fail(waves.error());
  } else {
    log_warn("{}: the CPU trains", waves.error().message());
  }
  GLEANER_ASSIGN(kernels_, kernels_for(Backend::cpu));
  return {};
}

Federation::Needs Stage::needs(const std::string& folder) {
  return {.experiment = &experiment_,
          .devices = devices_.get(),
          .data = data_.get(),
          .evaluation = evaluation_,
          .pool = pool_.get(),
          .kernels = kernels_,
          .folder = folder,
          .ranks = ranks_,
          .waves = waves_.get()};
}

void Stage::serve() {
  RunSpec spec = experiment_.run.spec;
  spec.id = Coordinator::kRun;
  auto model = model_of(experiment_.run);
  GLEANER_CHECK(model.has_value());
  const Names names(experiment_.population.devices);
  const JobNeeds jobs{.data = data_.get(),
                      .names = &names,
                      .kernels = kernels_,
                      .spec = spec,
                      .lineage = Coordinator::kLineage,
                      .model = *model,
                      .first_model = initial_parameters(*model, spec.seed)};
  WorkerScratch scratch;
  ranks_->serve([&](ByteView bytes) {
    const auto request = decode_request(bytes);
    return encode_reply(request ? do_job(jobs, *request, scratch) : JobReply{.error = request.error()});
  });
}

}  // namespace gleaner::simulation
