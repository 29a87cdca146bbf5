#pragma once
// Matrix products of the shapes that small batches have, where a library spends more on rearranging its operands than
// on multiplying: the weights are read where they lie, once, and windows of an image are not unrolled. All matrices are
// row-major. The same bits for the same arguments on one machine. Any thread; no memory of its own.

#include <cstddef>

namespace gleaner {

struct DenseShape {
  std::size_t rows;  // samples
  std::size_t inputs;
  std::size_t outputs;
};

// Up to so many samples these are faster than BLAS, which rearranges the weights first.
inline constexpr std::size_t kSmallRows = 64;

// output = input x weights
void dense_forward(const float* input, const float* weights, float* output, const DenseShape& shape);
// out = gradient x weights transposed
void dense_input_gradient(const float* gradient, const float* weights, float* out, const DenseShape& shape);
// into = keep * into + scale * input transposed x gradient; keep 0 overwrites, even NaN
struct Blend {
  float scale;
  float keep;
};
void dense_weight_gradient(const float* input, const float* gradient, float* into, const DenseShape& shape,
                           const Blend& blend);

// Every kernel x kernel window of an image of `channels` makes one pixel of `outputs`. No border: pad before.
struct WindowShape {
  std::size_t height;  // of the result, in pixels
  std::size_t width;
  std::size_t channels;  // of the image
  std::size_t row;       // floats in a row of the image
  std::size_t kernel;
  std::size_t outputs;
  std::size_t run() const { return kernel * channels; }  // floats of a window that lie together
  std::size_t window() const { return kernel * run(); }
};

// Weights in the order in which convolve() reads them; as large as packed_size() says, once for all images.
std::size_t packed_size(const WindowShape& shape);
void pack_weights(const float* weights, float* packed, const WindowShape& shape);

// output = windows x weights (+ bias, then ReLU through which NaN passes; null: neither)
void convolve(const float* image, const float* packed, const float* bias, float* output, const WindowShape& shape);
// sums (window x outputs) = or += windows transposed x gradient
enum class Sum { start, add };
void sum_weight_gradient(const float* image, const float* gradient, float* sums, const WindowShape& shape, Sum sum);

}  // namespace gleaner
