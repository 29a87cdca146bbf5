#pragma once
// The beginning and the end of a step: samples in, loss and gradient of the scores, the step itself, the books.

#include "training/cuda/slots.cuh"

namespace gleaner::cuda::GLEANER_EXECUTION {

GLEANER_DEVICE double sum_over_warp(double value) {
  for (std::uint32_t by = kLanes / 2; by > 0; by /= 2) value += shuffle_xor(kWholeWarp, value, by);
  return value;
}

// One warp a slot.
GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4) advance(Wave wave, Strided<const double> row_losses) {
  const std::uint32_t slot = block_index() * kWarps + warp_index();
  if (slot >= wave.devices) return;
  Part part = wave.now[slot];
  double loss = 0.0;
  if (row_losses.first != nullptr && part.rows != 0) {
    const double* const losses = at(row_losses, slot);
    for (std::uint32_t row = lane_index(); row < part.rows; row += kLanes) loss += losses[row];
  }
  loss = sum_over_warp(loss);
  if (lane_index() != 0) return;
  Progress progress = wave.progress[slot];
  if (row_losses.first != nullptr && part.rows != 0) {
    progress.batch_loss += loss;
    ++progress.next;
    if (part.ends != 0) {
      const double mean = progress.batch_loss / part.batch;
      ++progress.steps;
      if (is_finite(mean)) {
        progress.loss_sum += mean * part.batch;
        progress.samples += part.batch;
      } else {
        progress.diverged = 1;
      }
      progress.batch_loss = 0.0;
    }
    wave.progress[slot] = progress;
  }
  part = Part{};
  if (progress.next < wave.parts && progress.diverged == 0) {
    part = wave.plan[std::uint64_t{slot} * wave.parts + progress.next];
  }
  wave.now[slot] = part;
}

// The multiplication and the addition are rounded one by one, as on the CPU.
GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4)
    gather_samples(Wave wave, Samples samples, Strided<float> inputs, Strided<std::uint8_t> labels) {
  for_rows(wave, samples.features, [&](std::uint32_t slot, std::uint32_t i) {
    const Part part = wave.now[slot];
    const std::uint32_t row = i / samples.features;
    const std::uint32_t feature = i - row * samples.features;
    float value = 0.0F;
    if (row < part.rows) {
      const std::uint64_t sample = wave.order[wave.order_first[slot] + part.first + row];
      value = static_cast<float>(samples.pixels[sample * samples.features + feature]) * samples.scale + samples.shift;
      if (feature == 0) at(labels, slot)[row] = samples.labels[sample];
    }
    at(inputs, slot)[i] = value;
  });
}

// One warp a row. The sums of a warp have one order, whatever the wave.
GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4)
    softmax(Wave wave, std::uint32_t classes, Strided<const float> scores, Strided<const std::uint8_t> labels,
            Strided<float> gradient, Strided<double> row_losses) {
  const std::uint32_t step = block_count() * kWarps;
  for (std::uint32_t unit = block_index() * kWarps + warp_index(); unit < wave.devices * wave.rows; unit += step) {
    const std::uint32_t slot = unit / wave.rows;
    const std::uint32_t row = unit - slot * wave.rows;
    if (row >= rows_of(wave, slot)) continue;
    const Part part = wave.now[slot];
    const float* const from = at(scores, slot) + row * classes;
    float* const to = at(gradient, slot) + row * classes;
    if (row >= part.rows) {
      for (std::uint32_t c = lane_index(); c < classes; c += kLanes) to[c] = 0.0F;
      continue;
    }
    float largest = from[0];
    for (std::uint32_t c = lane_index(); c < classes; c += kLanes) largest = from[c] > largest ? from[c] : largest;
    for (std::uint32_t by = kLanes / 2; by > 0; by /= 2) {
      const float other = shuffle_xor(kWholeWarp, largest, by);
      largest = other > largest ? other : largest;
    }
    float sum = 0.0F;
    for (std::uint32_t c = lane_index(); c < classes; c += kLanes) sum += exponential(from[c] - largest);
    for (std::uint32_t by = kLanes / 2; by > 0; by /= 2) sum += shuffle_xor(kWholeWarp, sum, by);
    const std::uint32_t label = at(labels, slot)[row];
    const float scale = 1.0F / static_cast<float>(part.batch);
    for (std::uint32_t c = lane_index(); c < classes; c += kLanes) {
      const float share = exponential(from[c] - largest) / sum * scale;
      to[c] = c == label ? share - scale : share;
    }
    if (lane_index() == 0) {
      at(row_losses, slot)[row] = logarithm(sum) - (static_cast<double>(from[label]) - static_cast<double>(largest));
    }
  }
}

GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4) update(Wave wave, std::uint32_t parameters, Strided<float> model,
                                                  Strided<float> gradient, Strided<float> velocity) {
  for_entries(wave, parameters, [&](std::uint32_t slot, std::uint32_t i) {
    if (wave.now[slot].ends == 0) return;
    const Settings settings = wave.settings[slot];
    float& parameter = at(model, slot)[i];
    float& sum = at(gradient, slot)[i];
    if (settings.momentum > 0.0F) {
      float& speed = at(velocity, slot)[i];
      speed = settings.momentum * speed + (sum + settings.weight_decay * parameter);
      parameter -= settings.learning_rate * speed;
    } else {
      const float keep = 1.0F - settings.learning_rate * settings.weight_decay;
      parameter = keep * parameter - settings.learning_rate * sum;
    }
    sum = 0.0F;
  });
}

GLEANER_KERNEL GLEANER_BOUNDS(kThreads, 4)
    subtract(Wave wave, std::uint32_t parameters, Strided<const float> start, Strided<float> model) {
  for_entries(wave, parameters, [&](std::uint32_t slot, std::uint32_t i) {
    float& entry = at(model, slot)[i];
    entry = at(start, slot)[i] - entry;
    // Every thread that comes here writes the same.
    if (!is_finite(entry)) atomic_max(&wave.progress[slot].non_finite, 1U);
  });
}

}  // namespace gleaner::cuda::GLEANER_EXECUTION
