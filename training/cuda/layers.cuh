#pragma once
// The layers apart from their products: bias and ReLU, there and back, pools, windows of images.

#include "training/cuda/slots.cuh"

namespace gleaner::cuda::GLEANER_EXECUTION {

// Written so that NaN passes through ReLU and is seen in the loss.
GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4)
    add_bias(Wave wave, Outputs shape, Strided<const float> bias, Strided<float> outputs) {
  for_rows(wave, shape.pixels * shape.columns, [&](std::uint32_t slot, std::uint32_t i) {
    float& output = at(outputs, slot)[i];
    const float sum = output + at(bias, slot)[i % shape.columns];
    output = shape.relu != 0 && sum < 0.0F ? 0.0F : sum;
  });
}

// A block takes 32 columns of kSumRows rows: a warp every eighth row, then all warps together in their order.
GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4) undo_activation(Wave wave, Outputs shape, Strided<const float> outputs,
                                                           Strided<float> gradient, Strided<float> sums) {
  GLEANER_SHARED(float, warp_sums, kThreads);
  const std::uint32_t chunks = (wave.rows * shape.pixels + kSumRows - 1) / kSumRows;
  const std::uint32_t groups = (shape.columns + kLanes - 1) / kLanes;
  for (std::uint32_t unit = block_index(); unit < wave.devices * chunks * groups; unit += block_count()) {
    const std::uint32_t slot = unit / (chunks * groups);
    const std::uint32_t chunk = unit / groups % chunks;
    const std::uint32_t column = unit % groups * kLanes + lane_index();
    const std::uint32_t rows = rows_of(wave, slot) * shape.pixels;
    const std::uint32_t end = rows < (chunk + 1) * kSumRows ? rows : (chunk + 1) * kSumRows;
    if (chunk * kSumRows >= rows) continue;
    float sum = 0.0F;
    if (column < shape.columns) {
      const float* const output = at(outputs, slot);
      float* const values = at(gradient, slot);
      for (std::uint32_t row = chunk * kSumRows + warp_index(); row < end; row += kWarps) {
        const std::uint32_t i = row * shape.columns + column;
        if (shape.relu != 0 && !(output[i] > 0.0F)) values[i] = 0.0F;
        sum += values[i];
      }
    }
    sync_block();
    warp_sums[thread_index()] = sum;
    sync_block();
    if (warp_index() != 0 || column >= shape.columns) continue;
    float total = 0.0F;
    for (std::uint32_t warp = 0; warp < kWarps; ++warp) total += warp_sums[warp * kLanes + lane_index()];
    at(sums, slot)[chunk * shape.columns + column] = total;
  }
}

GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4)
    add_sums(Wave wave, Outputs shape, Strided<const float> sums, float scale, Strided<float> bias) {
  for_entries(wave, shape.columns, [&](std::uint32_t slot, std::uint32_t column) {
    const std::uint32_t rows = rows_of(wave, slot) * shape.pixels;
    if (rows == 0) return;
    float sum = 0.0F;
    for (std::uint32_t chunk = 0; chunk * kSumRows < rows; ++chunk) {
      sum += at(sums, slot)[chunk * shape.columns + column];
    }
    at(bias, slot)[column] += scale * sum;
  });
}

// The first of equals wins, and NaN in any place but the first loses, as on the CPU.
GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4)
    pool(Wave wave, Windows shape, Strided<const float> input, Strided<float> output, Strided<std::uint8_t> winners) {
  const std::uint32_t channels = shape.from.channels;
  const std::uint32_t line = shape.from.width * channels;
  for_rows(wave, shape.to.height * shape.to.width * channels, [&](std::uint32_t slot, std::uint32_t i) {
    const std::uint32_t channel = i % channels;
    const std::uint32_t x = i / channels % shape.to.width;
    const std::uint32_t y = i / (channels * shape.to.width) % shape.to.height;
    const std::uint32_t row = i / (channels * shape.to.width * shape.to.height);
    const float* const corner = at(input, slot) + (row * shape.from.height + 2 * y) * line + 2 * x * channels + channel;
    float best = corner[0];
    std::uint8_t winner = 0;
    for (std::uint8_t place = 1; place < 4; ++place) {
      const float value = corner[place / 2 * line + place % 2 * channels];
      if (value > best) {
        best = value;
        winner = place;
      }
    }
    at(output, slot)[i] = best;
    at(winners, slot)[i] = winner;
  });
}

GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4) unpool(Wave wave, Windows shape, Strided<const float> output_gradient,
                                                  Strided<const std::uint8_t> winners, Strided<float> input_gradient) {
  const std::uint32_t channels = shape.from.channels;
  for_rows(wave, shape.from.height * shape.from.width * channels, [&](std::uint32_t slot, std::uint32_t i) {
    const std::uint32_t channel = i % channels;
    const std::uint32_t x = i / channels % shape.from.width;
    const std::uint32_t y = i / (channels * shape.from.width) % shape.from.height;
    const std::uint32_t row = i / (channels * shape.from.width * shape.from.height);
    float value = 0.0F;
    if (x / 2 < shape.to.width && y / 2 < shape.to.height) {
      const std::uint32_t at_output = ((row * shape.to.height + y / 2) * shape.to.width + x / 2) * channels + channel;
      if (at(winners, slot)[at_output] == y % 2 * 2 + x % 2) value = at(output_gradient, slot)[at_output];
    }
    at(input_gradient, slot)[i] = value;
  });
}

GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4)
    unroll(Wave wave, Windows shape, Strided<const float> images, Strided<float> windows) {
  const std::uint32_t channels = shape.from.channels;
  const std::uint32_t run = shape.kernel * channels;
  const std::uint32_t window = shape.kernel * run;
  for_rows(wave, shape.to.height * shape.to.width * window, [&](std::uint32_t slot, std::uint32_t i) {
    const std::uint32_t pixel = i / window;
    const std::uint32_t place = i - pixel * window;
    const std::uint32_t line = place / run;
    const std::uint32_t along = place - line * run;
    const std::uint32_t x = pixel % shape.to.width + along / channels;
    const std::uint32_t y = pixel / shape.to.width % shape.to.height + line;
    const std::uint32_t row = pixel / (shape.to.width * shape.to.height);
    float value = 0.0F;
    // One comparison a side: what lies before the image wraps to a large number.
    const std::uint32_t from_x = x - shape.padding;
    const std::uint32_t from_y = y - shape.padding;
    if (from_x < shape.from.width && from_y < shape.from.height) {
      value = at(images,
                 slot)[((row * shape.from.height + from_y) * shape.from.width + from_x) * channels + along % channels];
    }
    at(windows, slot)[i] = value;
  });
}

// Every pixel adds up the windows that it lies in, in one order.
GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4)
    roll_up(Wave wave, Windows shape, Strided<const float> windows, Strided<float> images) {
  const std::uint32_t channels = shape.from.channels;
  const std::uint32_t window = shape.kernel * shape.kernel * channels;
  for_rows(wave, shape.from.height * shape.from.width * channels, [&](std::uint32_t slot, std::uint32_t i) {
    const std::uint32_t channel = i % channels;
    const std::uint32_t x = i / channels % shape.from.width + shape.padding;
    const std::uint32_t y = i / (channels * shape.from.width) % shape.from.height + shape.padding;
    const std::uint32_t row = i / (channels * shape.from.width * shape.from.height);
    const float* const values = at(windows, slot);
    float sum = 0.0F;
    for (std::uint32_t u = 0; u < shape.kernel; ++u) {
      const std::uint32_t to_y = y - u;
      if (to_y >= shape.to.height) continue;
      for (std::uint32_t v = 0; v < shape.kernel; ++v) {
        const std::uint32_t to_x = x - v;
        if (to_x >= shape.to.width) continue;
        const std::uint32_t pixel = (row * shape.to.height + to_y) * shape.to.width + to_x;
        sum += values[pixel * window + (u * shape.kernel + v) * channels + channel];
      }
    }
    at(images, slot)[i] = sum;
  });
}

}  // namespace gleaner::cuda::GLEANER_EXECUTION
