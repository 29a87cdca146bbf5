// Stands in for open.cpp where the build has no CUDA.

#include "training/cuda/open.hpp"

namespace gleaner {

Result<std::unique_ptr<WaveTrainer>> open_wave_trainer(const ModelSpec&, const Dataset&) {
  return fail(ErrorCode::bad_input,
              "CUDA: this build has no CUDA; build with -DGLEANER_CUDA=ON, or choose the backend cpu or auto");
}

}  // namespace gleaner
