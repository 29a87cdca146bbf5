#pragma once
// The two things wanted from BLAS: a matrix product and the number of its threads. One thread unless someone asks for
// more, so that a product repeats to the last bit on one machine and the process decides about its own threads.

#include <cstddef>

namespace gleaner {

// Threads inside one product, for the whole process; at least 1. Not while products are running.
void set_blas_threads(int threads);
int blas_threads();

enum class Transpose { no, yes };

struct MatrixView {
  const float* values;  // row-major, rows x columns as stored
  Transpose transpose = Transpose::no;
};
struct ProductShape {
  std::size_t rows;     // of the result
  std::size_t columns;  // of the result
  std::size_t inner;
};
struct ProductScale {
  float product = 1.0F;
  float keep = 0.0F;  // of what stood in the result; 0 overwrites it, even NaN
};

// result = keep * result + product * op(left) * op(right). Thread-safe for different results.
void multiply(MatrixView left, MatrixView right, float* result, ProductShape shape, ProductScale scale = {});

}  // namespace gleaner
