#include "training/blas.hpp"

#include <cblas.h>

#include <limits>
#include <mutex>

#include "common/check.hpp"

namespace gleaner {
namespace {

// The default is set before the first product or the first wish, whichever comes first.
void start_with_one_thread() {
  static std::once_flag once;
  std::call_once(once, [] { openblas_set_num_threads(1); });
}

blasint as_blas_int(std::size_t value) {
  GLEANER_CHECK(value <= static_cast<std::size_t>(std::numeric_limits<blasint>::max()));
  return static_cast<blasint>(value);
}

}  // namespace

void set_blas_threads(int threads) {
  GLEANER_CHECK(threads >= 1);
  start_with_one_thread();
  openblas_set_num_threads(threads);
}

int blas_threads() {
  start_with_one_thread();
  return openblas_get_num_threads();
}

void multiply(MatrixView left, MatrixView right, float* result, ProductShape shape, ProductScale scale) {
  start_with_one_thread();
  const bool left_turned = left.transpose == Transpose::yes;
  const bool right_turned = right.transpose == Transpose::yes;
  cblas_sgemm(CblasRowMajor, left_turned ? CblasTrans : CblasNoTrans, right_turned ? CblasTrans : CblasNoTrans,
              as_blas_int(shape.rows), as_blas_int(shape.columns), as_blas_int(shape.inner), scale.product, left.values,
              as_blas_int(left_turned ? shape.rows : shape.inner), right.values,
              as_blas_int(right_turned ? shape.inner : shape.columns), scale.keep, result, as_blas_int(shape.columns));
}

}  // namespace gleaner
