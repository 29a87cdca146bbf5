// One tile of a product, up to six rows by two vectors of sums in registers, behind all of the functions. Compiled once
// for every target and chosen at run time.

// No vectors whose size is not known here, and no more targets than are worth their code.
#define HWY_DISABLED_TARGETS \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "training/small_products.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <algorithm>

#include "training/small_products.hpp"

HWY_BEFORE_NAMESPACE();
namespace gleaner::small {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr std::size_t kLanes = hn::MaxLanes(D());
constexpr std::size_t kPanel = 2 * kLanes;
constexpr std::size_t kTileRows = 6;

enum class Store { overwrite, add, blend, bias_relu };

// result(r, c) = sum over segments s and k of left[s * left_segment + r * left_row + k * left_inner] * right(k', c),
// where the rows of right follow each other through all segments.
struct Tile {
  const float* left;
  std::size_t left_row;
  std::size_t left_inner;
  std::size_t left_segment;
  std::size_t segments;
  std::size_t inner;  // of a segment
  const float* right;
  std::size_t right_row;
  float* result;
  std::size_t result_row;
  std::size_t columns;  // up to kPanel
  Store store;
  Blend blend;
  const float* bias;
};

template <bool kPart>
HWY_INLINE V load(const float* from, std::size_t columns) {
  if constexpr (kPart) return hn::MaskedLoad(hn::FirstN(D(), columns), D(), from);
  return hn::LoadU(D(), from);
}
template <bool kPart>
HWY_INLINE void store(V value, float* to, std::size_t columns) {
  if constexpr (kPart) {
    hn::BlendedStore(value, hn::FirstN(D(), columns), D(), to);
  } else {
    hn::StoreU(value, D(), to);
  }
}

// What is stored in place of `to`.
template <bool kPart>
HWY_INLINE V finished(V sum, const Tile& t, const float* to, const float* bias, std::size_t columns) {
  switch (t.store) {
    case Store::overwrite: break;
    case Store::add: return hn::Add(load<kPart>(to, columns), sum);
    case Store::blend:
      if (t.blend.keep == 1.0F) {  // a step of SGD: one instruction less
        return hn::MulAdd(hn::Set(D(), t.blend.scale), sum, load<kPart>(to, columns));
      }
      sum = hn::Mul(hn::Set(D(), t.blend.scale), sum);
      return t.blend.keep == 0.0F ? sum : hn::MulAdd(hn::Set(D(), t.blend.keep), load<kPart>(to, columns), sum);
    case Store::bias_relu:
      sum = hn::Add(sum, load<kPart>(bias, columns));
      return hn::IfThenZeroElse(hn::Lt(sum, hn::Zero(D())), sum);
  }
  return sum;
}

// kVectors of columns, of which the last is kPart full. kPadded: the right matrix can be read to the end of its vector.
template <std::size_t kRows, std::size_t kVectors, bool kPart, bool kPadded>
HWY_INLINE void run_tile(const Tile& t) {
  constexpr bool kPartLoad = kPart && !kPadded;
  const std::size_t last = t.columns - (kVectors - 1) * kLanes;
  V sums[kRows][2];
  for (std::size_t r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = hn::Zero(D());
  const float* right = t.right;
  const float* segment = t.left;
  for (std::size_t s = 0; s < t.segments; ++s, segment += t.left_segment) {
    const float* left = segment;
    for (std::size_t k = 0; k < t.inner; ++k, left += t.left_inner, right += t.right_row) {
      const V first = kVectors == 2 ? hn::LoadU(D(), right) : load<kPartLoad>(right, last);
      const V second = kVectors == 2 ? load<kPartLoad>(right + kLanes, last) : first;
      HWY_UNROLL(6)
      for (std::size_t r = 0; r < kRows; ++r) {
        const V factor = hn::Set(D(), left[r * t.left_row]);
        sums[r][0] = hn::MulAdd(factor, first, sums[r][0]);
        if constexpr (kVectors == 2) sums[r][1] = hn::MulAdd(factor, second, sums[r][1]);
      }
    }
  }
  // All are read before any is stored: where a row is shorter than a vector, its neighbour's load would wait for its
  // store, although the lanes in use are others.
  const float* bias = t.bias == nullptr || kVectors == 1 ? t.bias : t.bias + kLanes;
  for (std::size_t r = 0; r < kRows; ++r) {
    const float* to = t.result + r * t.result_row;
    if constexpr (kVectors == 2) sums[r][0] = finished<false>(sums[r][0], t, to, t.bias, kLanes);
    V& end = sums[r][kVectors - 1];
    end = finished<kPart>(end, t, to + (kVectors - 1) * kLanes, bias, last);
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    float* to = t.result + r * t.result_row;
    if constexpr (kVectors == 2) store<false>(sums[r][0], to, kLanes);
    store<kPart>(sums[r][kVectors - 1], to + (kVectors - 1) * kLanes, last);
  }
}

template <std::size_t kRows, bool kPadded>
HWY_INLINE void run_columns(const Tile& t) {
  if (t.columns == kPanel) return run_tile<kRows, 2, false, kPadded>(t);
  if (t.columns > kLanes) return run_tile<kRows, 2, true, kPadded>(t);
  if (t.columns == kLanes) return run_tile<kRows, 1, false, kPadded>(t);
  run_tile<kRows, 1, true, kPadded>(t);
}

// All columns of rows of one height, side by side: where a product is short, going from tile to tile must cost little.
template <std::size_t kRows>
void run_strip(Tile t, std::size_t columns) {
  t.columns = kPanel;
  for (; columns >= kPanel; columns -= kPanel) {
    run_tile<kRows, 2, false, false>(t);
    t.right += kPanel;
    t.result += kPanel;
  }
  t.columns = columns;
  if (columns != 0) run_columns<kRows, false>(t);
}

void run_strip_of(const Tile& t, std::size_t rows, std::size_t columns) {
  switch (rows) {
    case 1: return run_strip<1>(t, columns);
    case 2: return run_strip<2>(t, columns);
    case 3: return run_strip<3>(t, columns);
    case 4: return run_strip<4>(t, columns);
    case 5: return run_strip<5>(t, columns);
    default: return run_strip<6>(t, columns);
  }
}

// `rows` in tiles of nearly equal height.
template <bool kPadded>
void run_rows(Tile t, std::size_t rows) {
  const std::size_t tiles = (rows + kTileRows - 1) / kTileRows;
  for (std::size_t i = 0; i < tiles; ++i) {
    const std::size_t height = rows / tiles + (i < rows % tiles ? 1 : 0);
    switch (height) {
      case 1: run_columns<1, kPadded>(t); break;
      case 2: run_columns<2, kPadded>(t); break;
      case 3: run_columns<3, kPadded>(t); break;
      case 4: run_columns<4, kPadded>(t); break;
      case 5: run_columns<5, kPadded>(t); break;
      default: run_columns<6, kPadded>(t); break;
    }
    t.left += height * t.left_row;
    t.result += height * t.result_row;
  }
}

// Weights in pieces that stay near while all samples pass over them.
void dense_forward(const float* input, const float* weights, float* output, const DenseShape& shape) {
  constexpr std::size_t kPiece = 128;
  for (std::size_t first = 0; first < shape.inputs; first += kPiece) {
    for (std::size_t column = 0; column < shape.outputs; column += kPanel) {
      run_rows<false>({.left = input + first,
                       .left_row = shape.inputs,
                       .left_inner = 1,
                       .left_segment = 0,
                       .segments = 1,
                       .inner = std::min(kPiece, shape.inputs - first),
                       .right = weights + first * shape.outputs + column,
                       .right_row = shape.outputs,
                       .result = output + column,
                       .result_row = shape.outputs,
                       .columns = std::min(kPanel, shape.outputs - column),
                       .store = first == 0 ? Store::overwrite : Store::add,
                       .blend = {},
                       .bias = nullptr},
                      shape.rows);
    }
  }
}

void dense_weight_gradient(const float* input, const float* gradient, float* into, const DenseShape& shape,
                           const Blend& blend) {
  // A few rows of weights at once, all of their columns: they are read and written in the order in which they lie.
  for (std::size_t first = 0; first < shape.inputs; first += kTileRows) {
    run_strip_of({.left = input + first,
                  .left_row = 1,
                  .left_inner = shape.inputs,
                  .left_segment = 0,
                  .segments = 1,
                  .inner = shape.rows,
                  .right = gradient,
                  .right_row = shape.outputs,
                  .result = into + first * shape.outputs,
                  .result_row = shape.outputs,
                  .columns = 0,
                  .store = Store::blend,
                  .blend = blend,
                  .bias = nullptr},
                 std::min(kTileRows, shape.inputs - first), shape.outputs);
  }
}

// Lane i is the sum of the lanes of the i-th of kLanes vectors.
HWY_INLINE V sums_of(V* vectors) {
  for (std::size_t width = kLanes; width > 1; width /= 2) {
    for (std::size_t i = 0; i < width / 2; ++i) {
      const V a = vectors[2 * i];
      const V b = vectors[2 * i + 1];
      vectors[i] = hn::Add(hn::ConcatEven(D(), b, a), hn::ConcatOdd(D(), b, a));
    }
  }
  return vectors[0];
}

// As many rows of weights at once as a vector has lanes: their dot products with a sample's gradient are a vector.
void dense_input_gradient(const float* gradient, const float* weights, float* out, const DenseShape& shape) {
  const std::size_t whole = shape.outputs / kLanes * kLanes;
  const std::size_t rest = shape.outputs - whole;
  std::size_t first = 0;
  for (; first + kLanes <= shape.inputs; first += kLanes) {
    const float* rows = weights + first * shape.outputs;
    for (std::size_t sample = 0; sample < shape.rows; ++sample) {
      const float* factors = gradient + sample * shape.outputs;
      V sums[kLanes];
      for (std::size_t i = 0; i < kLanes; ++i) sums[i] = hn::Zero(D());
      for (std::size_t k = 0; k < whole; k += kLanes) {
        const V factor = hn::LoadU(D(), factors + k);
        HWY_UNROLL(16)
        for (std::size_t i = 0; i < kLanes; ++i) {
          sums[i] = hn::MulAdd(factor, hn::LoadU(D(), rows + i * shape.outputs + k), sums[i]);
        }
      }
      if (rest != 0) {
        const V factor = load<true>(factors + whole, rest);
        for (std::size_t i = 0; i < kLanes; ++i) {
          sums[i] = hn::MulAdd(factor, load<true>(rows + i * shape.outputs + whole, rest), sums[i]);
        }
      }
      hn::StoreU(sums_of(sums), D(), out + sample * shape.inputs + first);
    }
  }
  for (; first < shape.inputs; ++first) {
    const float* row = weights + first * shape.outputs;
    for (std::size_t sample = 0; sample < shape.rows; ++sample) {
      V sum = hn::Zero(D());
      for (std::size_t k = 0; k < shape.outputs; k += kLanes) {
        const std::size_t columns = std::min(kLanes, shape.outputs - k);
        sum = hn::MulAdd(load<true>(gradient + sample * shape.outputs + k, columns), load<true>(row + k, columns), sum);
      }
      out[sample * shape.inputs + first] = hn::GetLane(hn::SumOfLanes(D(), sum));
    }
  }
}

std::size_t panel_width() { return kPanel; }

// Panel by panel, so that those of one panel follow each other; the last one is filled up with zeros.
void pack_weights(const float* weights, float* packed, const WindowShape& shape) {
  for (std::size_t column = 0; column < shape.outputs; column += kPanel) {
    const std::size_t columns = std::min(kPanel, shape.outputs - column);
    for (std::size_t k = 0; k < shape.window(); ++k, packed += kPanel) {
      std::copy_n(weights + k * shape.outputs + column, columns, packed);
      std::fill_n(packed + columns, kPanel - columns, 0.0F);
    }
  }
}

void convolve(const float* image, const float* packed, const float* bias, float* output, const WindowShape& shape) {
  for (std::size_t column = 0; column < shape.outputs; column += kPanel, packed += shape.window() * kPanel) {
    for (std::size_t y = 0; y < shape.height; ++y) {
      run_rows<true>({.left = image + y * shape.row,
                      .left_row = shape.channels,
                      .left_inner = 1,
                      .left_segment = shape.row,
                      .segments = shape.kernel,
                      .inner = shape.run(),
                      .right = packed,
                      .right_row = kPanel,
                      .result = output + y * shape.width * shape.outputs + column,
                      .result_row = shape.outputs,
                      .columns = std::min(kPanel, shape.outputs - column),
                      .store = bias == nullptr ? Store::overwrite : Store::bias_relu,
                      .blend = {},
                      .bias = bias == nullptr ? nullptr : bias + column},
                     shape.width);
    }
  }
}

// A few rows of pixels at once, so that they and their windows stay in the first cache while all sums pass over them.
void sum_weight_gradient(const float* image, const float* gradient, float* sums, const WindowShape& shape, Sum sum) {
  constexpr std::size_t kPixelsAtOnce = 56;
  const std::size_t rows_at_once = std::max<std::size_t>(1, kPixelsAtOnce / shape.width);
  for (std::size_t y = 0; y < shape.height; y += rows_at_once) {
    for (std::size_t u = 0; u < shape.kernel; ++u) {
      for (std::size_t j = 0; j < shape.run(); j += kTileRows) {
        for (std::size_t column = 0; column < shape.outputs; column += kPanel) {
          run_rows<false>({.left = image + (y + u) * shape.row + j,
                           .left_row = 1,
                           .left_inner = shape.channels,
                           .left_segment = shape.row,
                           .segments = std::min(rows_at_once, shape.height - y),
                           .inner = shape.width,
                           .right = gradient + y * shape.width * shape.outputs + column,
                           .right_row = shape.outputs,
                           .result = sums + (u * shape.run() + j) * shape.outputs + column,
                           .result_row = shape.outputs,
                           .columns = std::min(kPanel, shape.outputs - column),
                           .store = y == 0 && sum == Sum::start ? Store::overwrite : Store::add,
                           .blend = {},
                           .bias = nullptr},
                          std::min(kTileRows, shape.run() - j));
        }
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gleaner::small
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace gleaner {
namespace small {
HWY_EXPORT(dense_forward);
HWY_EXPORT(dense_input_gradient);
HWY_EXPORT(dense_weight_gradient);
HWY_EXPORT(panel_width);
HWY_EXPORT(pack_weights);
HWY_EXPORT(convolve);
HWY_EXPORT(sum_weight_gradient);
}  // namespace small

void dense_forward(const float* input, const float* weights, float* output, const DenseShape& shape) {
  using namespace small;
  HWY_DYNAMIC_DISPATCH(dense_forward)(input, weights, output, shape);
}
void dense_input_gradient(const float* gradient, const float* weights, float* out, const DenseShape& shape) {
  using namespace small;
  HWY_DYNAMIC_DISPATCH(dense_input_gradient)(gradient, weights, out, shape);
}
void dense_weight_gradient(const float* input, const float* gradient, float* into, const DenseShape& shape,
                           const Blend& blend) {
  using namespace small;
  HWY_DYNAMIC_DISPATCH(dense_weight_gradient)(input, gradient, into, shape, blend);
}
std::size_t packed_size(const WindowShape& shape) {
  using namespace small;
  const std::size_t width = HWY_DYNAMIC_DISPATCH(panel_width)();
  return (shape.outputs + width - 1) / width * width * shape.window();
}
void pack_weights(const float* weights, float* packed, const WindowShape& shape) {
  using namespace small;
  HWY_DYNAMIC_DISPATCH(pack_weights)(weights, packed, shape);
}
void convolve(const float* image, const float* packed, const float* bias, float* output, const WindowShape& shape) {
  using namespace small;
  HWY_DYNAMIC_DISPATCH(convolve)(image, packed, bias, output, shape);
}
void sum_weight_gradient(const float* image, const float* gradient, float* sums, const WindowShape& shape, Sum sum) {
  using namespace small;
  HWY_DYNAMIC_DISPATCH(sum_weight_gradient)(image, gradient, sums, shape, sum);
}

}  // namespace gleaner
#endif
