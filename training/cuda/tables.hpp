#pragma once
// The launch tables of the training kernels. C++20.

#include "training/cuda/launches.hpp"

namespace gleaner::cuda::device {
const TrainingLaunches& training_launches();
}

namespace gleaner::cuda::emulated {
const TrainingLaunches& training_launches();
}
