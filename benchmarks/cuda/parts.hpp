#pragma once
// The halves of gpu_bench: equality with the CPU, and times, of the kernels and of training.

#include <cstdint>
#include <vector>

#include "benchmarks/cuda/report.hpp"
#include "common/error.hpp"
#include "kernels/cuda/driver.hpp"

namespace gleaner::gpu_bench {

// Nearly normal, fast to make.
std::vector<float> random_vector(std::size_t size, std::uint64_t seed);

// The cuda table and the engine against the cpu table, bit for bit, on inputs of the seed. Sizes up to size.
Status check_equality(cuda::Driver& driver, std::uint64_t seed, std::uint32_t size);

// Batches of devices against train_local(), within rounding, and their selections bit for bit: every model, with our
// own products and with cuBLAS where it is. Small models where size is small.
Status check_training(cuda::Driver& driver, std::uint64_t seed, std::uint32_t size);

// Rows with their floors; every pair is measured in turns.
Status measure(cuda::Driver& driver, std::uint64_t seed, Report& report);

// A round of the CIFAR-10 recipe: how long, where the time goes, and how far from the floor.
Status measure_training(cuda::Driver& driver, std::uint64_t seed, Report& report);

}  // namespace gleaner::gpu_bench
