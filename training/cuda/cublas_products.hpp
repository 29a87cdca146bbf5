#pragma once
// Products by cuBLAS, through the few of its functions that are used: so that what they are told can be checked where
// there is no cuBLAS. Single precision throughout, without TF32.

#include <memory>
#include <string>

#include "training/cuda/products.hpp"

namespace gleaner::cuda {

struct CublasCalls {
  using Code = int;
  using Handle = void*;
  enum Operation : int { as_stored = 0, transposed = 1 };  // cuBLAS's numbers

  Code (*create)(Handle* handle) = nullptr;
  Code (*destroy)(Handle handle) = nullptr;
  Code (*set_stream)(Handle handle, void* stream) = nullptr;
  Code (*set_workspace)(Handle handle, void* memory, std::size_t bytes) = nullptr;
  // Column-major: result (rows x columns) = scale * op(left) * op(right) + keep * result, `count` times.
  Code (*multiply_strided)(Handle handle, Operation left_operation, Operation right_operation, int rows, int columns,
                           int inner, const float* scale, const float* left, int left_leading, long long left_stride,
                           const float* right, int right_leading, long long right_stride, const float* keep,
                           float* result, int result_leading, long long result_stride, int count) = nullptr;
  std::string (*describe)(Code code) = nullptr;
};

constexpr std::size_t kCublasWorkspaceBytes = std::size_t{32} << 20U;

// The workspace, of kCublasWorkspaceBytes on the device, outlives the products.
Result<std::unique_ptr<Products>> cublas_products(const CublasCalls& calls, void* workspace);

// From the library that this machine has. Errors: there is none, or this build has no CUDA.
Result<CublasCalls> load_cublas();

}  // namespace gleaner::cuda
