#pragma once
// The parts of the launch tables, one a source, and the whole tables. C++20.

#include "kernels/cuda/launches.hpp"

namespace gleaner::cuda::device {
void add_selection(Launches& launches);
void add_sums(Launches& launches);
const Launches& launches();
}  // namespace gleaner::cuda::device

namespace gleaner::cuda::emulated {
void add_selection(Launches& launches);
void add_sums(Launches& launches);
const Launches& launches();
}  // namespace gleaner::cuda::emulated
