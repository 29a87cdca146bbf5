#include "training/synthetic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "common/check.hpp"
#include "common/random.hpp"

namespace gleaner {
namespace {

// Streams of Purpose::device_model.
constexpr std::uint64_t kPatterns = 0;
constexpr std::uint64_t kNoise = 1;
constexpr std::uint64_t kUserSizes = 2;
constexpr std::uint64_t kUser = 3;

constexpr std::uint32_t kPreferred = 5;  // classes of a user, of which half of its samples are
constexpr int kBrightness = 32;

// How many samples each user has: one and a share of the rest by weights of 1 to 8.
std::vector<std::uint32_t> user_sizes(const SyntheticSpec& spec, std::uint64_t seed) {
  Random random(seed, Purpose::device_model, kUserSizes);
  std::vector<std::uint64_t> ends;  // running sums of the weights
  for (std::uint32_t user = 0; user < spec.users; ++user) {
    ends.push_back((ends.empty() ? 0 : ends.back()) + 1024 + random.below(7 * 1024 + 1));
  }
  std::vector<std::uint32_t> sizes;
  std::uint64_t given = 0;
  for (const std::uint64_t end : ends) {
    const std::uint64_t upto = (spec.samples - spec.users) * end / ends.back();
    sizes.push_back(static_cast<std::uint32_t>(1 + upto - given));
    given = upto;
  }
  return sizes;
}

class Writer {
 public:
  Writer(const SyntheticSpec& spec, const SyntheticSeeds& seeds)
      : spec_(spec), noise_(seeds.noise, Purpose::device_model, kNoise) {
    dataset_.samples = spec.samples;
    dataset_.classes = spec.classes;
    dataset_.height = spec.height;
    dataset_.width = spec.width;
    dataset_.channels = spec.channels;
    dataset_.features = spec.height * spec.width * spec.channels;
    dataset_.standardisation = {0.5, 0.25};
    patterns_.resize(std::size_t{spec.classes} * dataset_.features);
    Random pattern(seeds.pattern, Purpose::device_model, kPatterns);
    for (std::uint8_t& pixel : patterns_) pixel = static_cast<std::uint8_t>(pattern.below(256));
    dataset_.pixels.reserve(std::size_t{spec.samples} * dataset_.features);
    dataset_.labels.reserve(spec.samples);
  }

  void write(std::uint32_t label, int brightness) {
    dataset_.labels.push_back(static_cast<std::uint8_t>(label));
    const std::uint8_t* pattern = &patterns_[std::size_t{label} * dataset_.features];
    for (std::uint32_t i = 0; i < dataset_.features; ++i) {
      const int shift = static_cast<int>(noise_.below(2 * spec_.noise + 1)) - static_cast<int>(spec_.noise);
      dataset_.pixels.push_back(static_cast<std::uint8_t>(std::clamp(int{pattern[i]} + shift + brightness, 0, 255)));
    }
  }

  void write_user(std::uint32_t user, std::uint32_t size, std::uint64_t seed) {
    Random random(seed, Purpose::device_model, kUser, user);
    const int brightness = static_cast<int>(random.below(2 * kBrightness + 1)) - kBrightness;
    const std::uint32_t first = random.below(spec_.classes);
    for (std::uint32_t i = 0; i < size; ++i) {
      const bool preferred = random.below(2) == 0;
      write(preferred ? (first + random.below(kPreferred)) % spec_.classes : random.below(spec_.classes), brightness);
    }
    dataset_.users.insert(dataset_.users.end(), size, user);
    dataset_.user_names.push_back(fmt::format("user{:05}", user));
  }

  Dataset take() { return std::move(dataset_); }

 private:
  const SyntheticSpec& spec_;
  Random noise_;
  Dataset dataset_;
  std::vector<std::uint8_t> patterns_;
};

}  // namespace

Dataset synthetic_dataset(const SyntheticSpec& spec, const SyntheticSeeds& seeds) {
  GLEANER_CHECK(spec.classes >= 2 && spec.classes <= 256 && spec.noise <= 255 && spec.users <= spec.samples);
  Writer writer(spec, seeds);
  if (spec.users == 0) {
    for (std::uint32_t sample = 0; sample < spec.samples; ++sample) writer.write(sample % spec.classes, 0);
  } else {
    const auto sizes = user_sizes(spec, seeds.noise);
    for (std::uint32_t user = 0; user < spec.users; ++user) writer.write_user(user, sizes[user], seeds.noise);
  }
  return writer.take();
}

}  // namespace gleaner
