#pragma once
// The tables that table.cpp chooses from. Each lives for the whole process.

#include "common/error.hpp"
#include "kernels/kernels.hpp"

namespace gleaner {

const KernelTable& reference_kernels();
const KernelTable& cpu_kernels();

// An Error that names what is missing where there is no CUDA: the build, the driver or the device.
Result<const KernelTable*> cuda_kernels();

}  // namespace gleaner
