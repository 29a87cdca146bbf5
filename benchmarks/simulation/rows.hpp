#pragma once
// Whole simulations beside what they cannot be faster than; rows as those of the kernels.

#include "benchmarks/kernels/rows.hpp"

namespace gleaner::bench {

void measure_overhead(int turns, KernelRows& rows);  // a simulation over the bare training of the same samples
void measure_round(int turns, KernelRows& rows);     // ten thousand devices, no training
void measure_population(KernelRows& rows);           // a million enrolled devices

}  // namespace gleaner::bench
