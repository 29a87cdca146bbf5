#include "training/synthetic.hpp"

#include <algorithm>

#include "common/check.hpp"
#include "common/random.hpp"

namespace gleaner {

Dataset synthetic_dataset(const SyntheticSpec& spec, const SyntheticSeeds& seeds) {
  GLEANER_CHECK(spec.classes >= 2 && spec.classes <= 256 && spec.noise <= 255);
  Dataset dataset;
  dataset.samples = spec.samples;
  dataset.classes = spec.classes;
  dataset.height = spec.height;
  dataset.width = spec.width;
  dataset.channels = 1;
  dataset.features = spec.height * spec.width;
  std::vector<std::uint8_t> patterns(std::size_t{spec.classes} * dataset.features);
  Random pattern(seeds.pattern, Purpose::device_model, 0);
  for (std::uint8_t& pixel : patterns) pixel = static_cast<std::uint8_t>(pattern.below(256));
  Random noise(seeds.noise, Purpose::device_model, 1);
  dataset.pixels.reserve(std::size_t{spec.samples} * dataset.features);
  for (std::uint32_t sample = 0; sample < spec.samples; ++sample) {
    const std::uint32_t label = sample % spec.classes;
    dataset.labels.push_back(static_cast<std::uint8_t>(label));
    for (std::uint32_t i = 0; i < dataset.features; ++i) {
      const int shift = static_cast<int>(noise.below(2 * spec.noise + 1)) - static_cast<int>(spec.noise);
      const int value = int{patterns[std::size_t{label} * dataset.features + i]} + shift;
      dataset.pixels.push_back(static_cast<std::uint8_t>(std::clamp(value, 0, 255)));
    }
  }
  dataset.standardisation = {0.5, 0.25};
  return dataset;
}

}  // namespace gleaner
