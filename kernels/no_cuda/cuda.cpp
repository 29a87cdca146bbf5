#include "kernels/backends.hpp"

namespace gleaner {

Result<const KernelTable*> cuda_kernels() {
  return fail(ErrorCode::bad_input,
              "this program was built without CUDA: configure with -DGLEANER_CUDA=ON (needs nvcc 13), "
              "or choose the backend cpu or auto");
}

}  // namespace gleaner
