#pragma once
// The training kernels as the host starts them, one function a kernel, for the first `devices` slots of a wave: slot s
// has its parameters, activations and tables at s times a stride. C++20: nvcc compiles it too.

#include <cstdint>

namespace gleaner::cuda {

constexpr std::uint32_t kSpan = 2048;    // entries of one slot that a block takes at a time
constexpr std::uint32_t kSumRows = 256;  // rows of a gradient that a block adds up for the bias
constexpr std::uint32_t kTileRows = 32;  // of a product's result, a block at a time
constexpr std::uint32_t kTileColumns = 64;
constexpr std::uint32_t kTileInner = 16;

// What a slot does in one step: some samples of its order, all or a part of a batch.
struct Part {
  std::uint32_t first = 0;
  std::uint32_t rows = 0;   // 0: nothing any more
  std::uint32_t batch = 0;  // samples of the whole batch
  std::uint32_t ends = 0;   // the batch: 1 on its last part
};

struct Settings {
  float learning_rate = 0.0F;
  float momentum = 0.0F;
  float weight_decay = 0.0F;
};

struct Progress {
  double loss_sum = 0.0;    // over the samples seen
  double batch_loss = 0.0;  // of the parts of the batch so far
  std::uint64_t samples = 0;
  std::uint32_t next = 0;  // of its parts
  std::uint32_t steps = 0;
  std::uint32_t diverged = 0;    // 1: the loss of the last step is not finite, and it was the last
  std::uint32_t non_finite = 0;  // 1: an entry of the delta
};

// rows: room in every slot. whole: rows that a slot does not use are worked on, too, and are zeros on both ways;
// products that know no counts need that.
struct Wave {
  std::uint32_t devices = 0;
  std::uint32_t rows = 0;
  std::uint32_t whole = 0;
  std::uint32_t parts = 0;                     // room in every slot
  const Part* plan = nullptr;                  // [slots][parts]
  Part* now = nullptr;                         // [slots]
  Progress* progress = nullptr;                // [slots]
  const Settings* settings = nullptr;          // [slots]
  const std::uint64_t* order_first = nullptr;  // [slots] where its order begins
  const std::uint32_t* order = nullptr;        // indices of samples
};

struct Samples {
  const std::uint8_t* pixels = nullptr;
  const std::uint8_t* labels = nullptr;
  std::uint32_t features = 0;
  float scale = 0.0F;
  float shift = 0.0F;
};

template <class T>
struct Strided {
  T* first = nullptr;
  std::uint64_t stride = 0;  // from one slot to the next
};

// A layer's outputs are rows x pixels x columns, its bias has columns entries.
struct Outputs {
  std::uint32_t pixels = 0;  // a row
  std::uint32_t columns = 0;
  std::uint32_t relu = 0;
};

struct Image {
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::uint32_t channels = 0;
};
struct Windows {
  Image from;
  Image to;
  std::uint32_t kernel = 0;
  std::uint32_t padding = 0;
};

// result = keep * result + scale * op(left) * op(right), of every slot by itself; row-major and without gaps. Of the
// rows, or of the inner dimension, only the first `of_a_row` times the slot's rows count.
struct Matrix {
  Strided<const float> values;
  std::uint32_t transposed = 0;
};
struct Product {
  Matrix left;
  Matrix right;
  Strided<float> result;
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::uint32_t inner = 0;
  std::uint32_t of_a_row = 0;
  std::uint32_t counts_inner = 0;
  float scale = 1.0F;
  float keep = 0.0F;
};

struct TrainingLaunches {
  using Code = int;
  using Stream = void*;

  // Books the step that was, and looks up the next; row_losses null: there was none.
  Code (*advance)(Stream, const Wave&, Strided<const double> row_losses);
  Code (*gather)(Stream, unsigned blocks, const Wave&, const Samples&, Strided<float> inputs,
                 Strided<std::uint8_t> labels);
  Code (*multiply)(Stream, unsigned blocks, const Wave&, const Product&);
  Code (*add_bias)(Stream, unsigned blocks, const Wave&, const Outputs&, Strided<const float> bias,
                   Strided<float> outputs);
  // gradient and losses from the scores
  Code (*softmax)(Stream, unsigned blocks, const Wave&, std::uint32_t classes, Strided<const float> scores,
                  Strided<const std::uint8_t> labels, Strided<float> gradient, Strided<double> row_losses);
  // The gradient back through the activation function, in place, and its sums over kSumRows rows at a time; then
  // bias += scale * the sums of those.
  Code (*undo_activation)(Stream, unsigned blocks, const Wave&, const Outputs&, Strided<const float> outputs,
                          Strided<float> gradient, Strided<float> sums);
  Code (*add_sums)(Stream, unsigned blocks, const Wave&, const Outputs&, Strided<const float> sums, float scale,
                   Strided<float> bias);
  Code (*pool)(Stream, unsigned blocks, const Wave&, const Windows&, Strided<const float> input, Strided<float> output,
               Strided<std::uint8_t> winners);
  Code (*unpool)(Stream, unsigned blocks, const Wave&, const Windows&, Strided<const float> output_gradient,
                 Strided<const std::uint8_t> winners, Strided<float> input_gradient);
  // Every window of the images as a row of its own, and the sum of such rows where their windows overlap.
  Code (*unroll)(Stream, unsigned blocks, const Wave&, const Windows&, Strided<const float> images,
                 Strided<float> windows);
  Code (*roll_up)(Stream, unsigned blocks, const Wave&, const Windows&, Strided<const float> windows,
                  Strided<float> images);
  // One step of SGD where a batch has ended; the gradient is zero again then. Null velocity: no momentum.
  Code (*update)(Stream, unsigned blocks, const Wave&, std::uint32_t parameters, Strided<float> model,
                 Strided<float> gradient, Strided<float> velocity);
  // model = start - model
  Code (*subtract)(Stream, unsigned blocks, const Wave&, std::uint32_t parameters, Strided<const float> start,
                   Strided<float> model);
};

}  // namespace gleaner::cuda
