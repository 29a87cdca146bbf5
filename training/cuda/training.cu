// Starts the kernels of training, and holds their table.

#include "training/cuda/layers.cuh"
#include "training/cuda/product.cuh"
#include "training/cuda/steps.cuh"
#include "training/cuda/tables.hpp"

namespace gleaner::cuda::GLEANER_EXECUTION {
namespace {

using Code = TrainingLaunches::Code;
using Stream = TrainingLaunches::Stream;

Code start_advance(Stream stream, const Wave& wave, Strided<const double> row_losses) {
  return launch("advance", stream, (wave.devices + kWarps - 1) / kWarps, kThreads, advance, wave, row_losses);
}

Code start_gather(Stream stream, unsigned blocks, const Wave& wave, const Samples& samples, Strided<float> inputs,
                  Strided<std::uint8_t> labels) {
  return launch("gather_samples", stream, blocks, kThreads, gather_samples, wave, samples, inputs, labels);
}

Code start_multiply(Stream stream, unsigned blocks, const Wave& wave, const Product& product) {
  return launch("multiply", stream, blocks, kThreads, multiply, wave, product);
}

Code start_add_bias(Stream stream, unsigned blocks, const Wave& wave, const Outputs& shape, Strided<const float> bias,
                    Strided<float> outputs) {
  return launch("add_bias", stream, blocks, kThreads, add_bias, wave, shape, bias, outputs);
}

Code start_softmax(Stream stream, unsigned blocks, const Wave& wave, std::uint32_t classes, Strided<const float> scores,
                   Strided<const std::uint8_t> labels, Strided<float> gradient, Strided<double> row_losses) {
  return launch("softmax", stream, blocks, kThreads, softmax, wave, classes, scores, labels, gradient, row_losses);
}

Code start_undo_activation(Stream stream, unsigned blocks, const Wave& wave, const Outputs& shape,
                           Strided<const float> outputs, Strided<float> gradient, Strided<float> sums) {
  return launch("undo_activation", stream, blocks, kThreads, undo_activation, wave, shape, outputs, gradient, sums);
}

Code start_add_sums(Stream stream, unsigned blocks, const Wave& wave, const Outputs& shape, Strided<const float> sums,
                    float scale, Strided<float> bias) {
  return launch("add_sums", stream, blocks, kThreads, add_sums, wave, shape, sums, scale, bias);
}

Code start_pool(Stream stream, unsigned blocks, const Wave& wave, const Windows& shape, Strided<const float> input,
                Strided<float> output, Strided<std::uint8_t> winners) {
  return launch("pool", stream, blocks, kThreads, pool, wave, shape, input, output, winners);
}

Code start_unpool(Stream stream, unsigned blocks, const Wave& wave, const Windows& shape,
                  Strided<const float> output_gradient, Strided<const std::uint8_t> winners,
                  Strided<float> input_gradient) {
  return launch("unpool", stream, blocks, kThreads, unpool, wave, shape, output_gradient, winners, input_gradient);
}

Code start_unroll(Stream stream, unsigned blocks, const Wave& wave, const Windows& shape, Strided<const float> images,
                  Strided<float> windows) {
  return launch("unroll", stream, blocks, kThreads, unroll, wave, shape, images, windows);
}

Code start_roll_up(Stream stream, unsigned blocks, const Wave& wave, const Windows& shape, Strided<const float> windows,
                   Strided<float> images) {
  return launch("roll_up", stream, blocks, kThreads, roll_up, wave, shape, windows, images);
}

Code start_update(Stream stream, unsigned blocks, const Wave& wave, std::uint32_t parameters, Strided<float> model,
                  Strided<float> gradient, Strided<float> velocity) {
  return launch("update", stream, blocks, kThreads, update, wave, parameters, model, gradient, velocity);
}

Code start_subtract(Stream stream, unsigned blocks, const Wave& wave, std::uint32_t parameters,
                    Strided<const float> start, Strided<float> model) {
  return launch("subtract", stream, blocks, kThreads, subtract, wave, parameters, start, model);
}

}  // namespace

const TrainingLaunches& training_launches() {
  static const TrainingLaunches table = {.advance = start_advance,
                                         .gather = start_gather,
                                         .multiply = start_multiply,
                                         .add_bias = start_add_bias,
                                         .softmax = start_softmax,
                                         .undo_activation = start_undo_activation,
                                         .add_sums = start_add_sums,
                                         .pool = start_pool,
                                         .unpool = start_unpool,
                                         .unroll = start_unroll,
                                         .roll_up = start_roll_up,
                                         .update = start_update,
                                         .subtract = start_subtract};
  return table;
}

}  // namespace gleaner::cuda::GLEANER_EXECUTION
