#include <algorithm>
#include <array>
#include <chrono>

#include "benchmarks/kernels/rows.hpp"
#include "common/random.hpp"

namespace gleaner::bench {

std::vector<std::vector<double>> take_turns(const std::vector<Subject>& subjects, int turns) {
  std::vector<std::vector<double>> times(subjects.size());
  for (int turn = -1; turn < turns; ++turn) {
    for (std::size_t s = 0; s < subjects.size(); ++s) {
      if (subjects[s].before) subjects[s].before();
      const auto started = std::chrono::steady_clock::now();
      subjects[s].run();
      const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - started;
      if (turn >= 0) times[s].push_back(took.count());
    }
  }
  return times;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double median_ratio(const std::vector<double>& above, const std::vector<double>& below) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < above.size(); ++i) ratios.push_back(above[i] / below[i]);
  return median(std::move(ratios));
}

std::vector<float> gaussian(std::size_t size) {
  Random random(1, Purpose::test);
  std::vector<float> x(size);
  for (float& value : x) value = static_cast<float>(random.normal());
  return x;
}

std::vector<float> heavy_tailed(std::size_t size) {
  Random random(2, Purpose::test);
  std::vector<float> x(size);
  for (float& value : x) value = static_cast<float>(random.normal() * random.normal() * random.normal());
  return x;
}

void read_once(const float* x, std::size_t size) {
  constexpr std::size_t kSums = 32;  // more than the latency of an addition needs
  std::array<float, kSums> sums{};
  std::size_t i = 0;
  for (; i + kSums <= size; i += kSums) {
    for (std::size_t j = 0; j < kSums; ++j) sums[j] += x[i + j];
  }
  float sum = 0.0F;
  for (const float lane : sums) sum += lane;
  volatile float sink = sum;
  static_cast<void>(sink);
}

void read_once(const std::vector<float>& x) { read_once(x.data(), x.size()); }

}  // namespace gleaner::bench
