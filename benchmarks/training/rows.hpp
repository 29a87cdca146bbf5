#pragma once
// The trainer beside one large-batch training of the same model with OpenBLAS, in turns; rows as those of the kernels.

#include "benchmarks/kernels/rows.hpp"

namespace gleaner::bench {

struct TrainingOptions {
  std::string model;  // empty: all
  int turns = 7;
};
void measure_training(const TrainingOptions& options, KernelRows& rows);

}  // namespace gleaner::bench
