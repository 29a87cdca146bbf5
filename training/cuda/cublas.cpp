// cuBLAS, loaded when it is first asked for, so that the programs start where it is not.

#include <cublas_v2.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include "training/cuda/cublas_products.hpp"

namespace gleaner::cuda {
namespace {

struct Functions {
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
  decltype(&cublasSgemmStridedBatched) multiply = nullptr;
  decltype(&cublasGetStatusString) describe = nullptr;
  std::string missing;  // what could not be loaded
};

template <class Function>
void load(void* library, const char* name, Functions& functions, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr && functions.missing.empty()) functions.missing = name;
}

// Never closed: CUDA may be gone before the last static object is.
const Functions& functions() {
  static const Functions loaded = [] {
    Functions made;
    const auto name = fmt::format("libcublas.so.{}", CUBLAS_VER_MAJOR);
    void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      made.missing = name;
      return made;
    }
    load(library, "cublasCreate_v2", made, made.create);
    load(library, "cublasDestroy_v2", made, made.destroy);
    load(library, "cublasSetStream_v2", made, made.set_stream);
    load(library, "cublasSetWorkspace_v2", made, made.set_workspace);
    load(library, "cublasSgemmStridedBatched", made, made.multiply);
    load(library, "cublasGetStatusString", made, made.describe);
    return made;
  }();
  return loaded;
}

cublasHandle_t handle_of(void* handle) { return static_cast<cublasHandle_t>(handle); }
cublasOperation_t operation_of(CublasCalls::Operation operation) {
  return operation == CublasCalls::transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

}  // namespace

Result<CublasCalls> load_cublas() {
  if (!functions().missing.empty()) {
    return fail(ErrorCode::not_found, fmt::format("cuBLAS: {} cannot be loaded", functions().missing));
  }
  CublasCalls calls;
  calls.create = [](void** handle) -> int {
    cublasHandle_t made = nullptr;
    const auto status = functions().create(&made);
    *handle = made;
    return status;
  };
  calls.destroy = [](void* handle) -> int { return functions().destroy(handle_of(handle)); };
  calls.set_stream = [](void* handle, void* stream) -> int {
    return functions().set_stream(handle_of(handle), static_cast<cudaStream_t>(stream));
  };
  calls.set_workspace = [](void* handle, void* memory, std::size_t bytes) -> int {
    return functions().set_workspace(handle_of(handle), memory, bytes);
  };
  calls.multiply_strided = [](void* handle, CublasCalls::Operation left_operation,
                              CublasCalls::Operation right_operation, int rows, int columns, int inner,
                              const float* scale, const float* left, int left_leading, long long left_stride,
                              const float* right, int right_leading, long long right_stride, const float* keep,
                              float* result, int result_leading, long long result_stride, int count) -> int {
    return functions().multiply(handle_of(handle), operation_of(left_operation), operation_of(right_operation), rows,
                                columns, inner, scale, left, left_leading, left_stride, right, right_leading,
                                right_stride, keep, result, result_leading, result_stride, count);
  };
  calls.describe = [](int code) -> std::string { return functions().describe(static_cast<cublasStatus_t>(code)); };
  return calls;
}

}  // namespace gleaner::cuda
