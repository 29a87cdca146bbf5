#pragma once
// The driver of a real GPU. The CUDA runtime is linked statically; the driver library is loaded when it is first used,
// so that the program starts where there is none.

#include <memory>

#include "common/error.hpp"
#include "kernels/cuda/driver.hpp"

namespace gleaner::cuda {

// The first GPU that CUDA names. The Error says what is missing: a driver, a device, a device that is new enough.
Result<std::unique_ptr<Driver>> open_device();

}  // namespace gleaner::cuda
