#pragma once
// The wave trainer of the GPU that is there, for programs.

#include <memory>

#include "training/wave_trainer.hpp"

namespace gleaner {

// The data set goes to the device and is not needed any more. Errors (bad_input) say what is missing: a build with
// CUDA, a driver, a device; or the data set does not fit the model, or the device.
Result<std::unique_ptr<WaveTrainer>> open_wave_trainer(const ModelSpec& spec, const Dataset& dataset);

}  // namespace gleaner
