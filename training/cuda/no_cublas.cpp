// Stands in for cublas.cpp where the build has no cuBLAS.

#include "training/cuda/cublas_products.hpp"

namespace gleaner::cuda {

Result<CublasCalls> load_cublas() { return fail(ErrorCode::not_found, "this build has no cuBLAS"); }

}  // namespace gleaner::cuda
