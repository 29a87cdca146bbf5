// Eight devices with different quadratics: lazily tracked top-k updates still reach the common optimum.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "common/random.hpp"
#include "compression/device_memory.hpp"
#include "compression/upload_rule.hpp"

namespace gleaner {
namespace {

constexpr std::uint32_t kDevices = 8;
constexpr std::uint32_t kDimension = 40;
constexpr std::uint32_t kEntries = 4;
constexpr double kRate = 0.02;

// Device m has the gradient curvature * (w - centre).
struct Device {
  std::array<double, kDimension> curvature{};
  std::array<double, kDimension> centre{};
  DeviceMemory memory{MemoryKind::tracked, kDimension};
  std::vector<float> previous;  // g_prev
  std::uint32_t age = 0;

  std::vector<float> gradient(const std::vector<double>& w) const {
    std::vector<float> g(kDimension);
    for (std::size_t i = 0; i < kDimension; ++i) g[i] = static_cast<float>(curvature[i] * (w[i] - centre[i]));
    return g;
  }
};

struct Summary {
  double relative_squared_error = 0.0;
  double upload_share = 0.0;
  std::uint32_t oldest = 0;
};

std::vector<Device> make_devices(std::uint32_t age_max) {
  std::vector<Device> devices(kDevices);
  for (std::uint32_t m = 0; m < kDevices; ++m) {
    Random random(21, Purpose::test, m);
    devices[m].age = age_max;  // never sent
    for (std::uint32_t i = 0; i < kDimension; ++i) {
      devices[m].curvature[i] = 0.3 + 1.7 * random.uniform();
      devices[m].centre[i] = random.normal() + (i % kDevices == m ? 2.0 : 0.0);
    }
  }
  return devices;
}

double squared_error(const std::vector<Device>& devices, const std::vector<double>& w) {
  double sum = 0.0;
  for (std::size_t i = 0; i < kDimension; ++i) {
    double weight = 0.0;
    double weighted = 0.0;
    for (const Device& device : devices) {
      weight += device.curvature[i];
      weighted += device.curvature[i] * device.centre[i];
    }
    const double error = w[i] - weighted / weight;
    sum += error * error;
  }
  return sum;
}

// One round of one device; adds what it sends to the mean of the tracked gradients. Returns whether it sent.
bool take_part(Device& device, const UploadRule& rule, const Compressor& compressor, const std::vector<double>& w,
               std::vector<double>& tracked_mean) {
  const auto g = device.gradient(w);
  std::vector<float> candidate(kDimension);
  Selection selection;
  EXPECT_TRUE(compressor.select(g, device.memory.state(), candidate, MemoryKind::tracked, kEntries, selection));
  const RuleInput input = {.weight = 1.0 / kDevices,
                           .age = device.age,
                           .threshold = 0.0F,
                           .update = g,
                           .candidate_squared_norm = selection.squared_norm,
                           .state = device.previous,
                           .gradient_difference = {}};
  const bool send = rule.decide(input)->send;
  device.previous = g;
  const auto before = std::vector<float>(device.memory.state().begin(), device.memory.state().end());
  if (!send) {
    ++device.age;
    device.memory.settle(Outcome::skipped);
    EXPECT_TRUE(std::ranges::equal(device.memory.state(), before)) << "a silent round changes no state";
    return false;
  }
  device.age = 1;
  EXPECT_TRUE(device.memory.begin({kDimension, selection.indices, selection.values}));
  device.memory.settle(Outcome::included);
  for (std::size_t j = 0; j < selection.indices.size(); ++j) {
    tracked_mean[selection.indices[j]] += static_cast<double>(selection.values[j]) / kDevices;
  }
  return true;
}

Summary simulate(const UploadRuleOptions& options, int rounds) {
  const auto rule = make_upload_rule("clag", options);
  const auto compressor = make_compressor("topk", {}, {{kDimension}}, **kernels_for(Backend::cpu));
  auto devices = make_devices(options.age_max);
  std::vector<double> w(kDimension);
  std::vector<double> tracked_mean(kDimension);
  const double at_first = squared_error(devices, w);
  Summary result;
  int uploads = 0;
  for (int round = 0; round < rounds; ++round) {
    for (Device& device : devices) {
      uploads += take_part(device, **rule, **compressor, w, tracked_mean) ? 1 : 0;
      result.oldest = std::max(result.oldest, device.age);
    }
    for (std::size_t i = 0; i < kDimension; ++i) w[i] -= kRate * tracked_mean[i];
  }
  result.relative_squared_error = squared_error(devices, w) / at_first;
  result.upload_share = uploads / (static_cast<double>(kDevices) * rounds);
  return result;
}

TEST(LazySimulation, TrackedMemoryConvergesWithAFractionOfTheUploads) {
  const UploadRuleOptions options = {.age_max = 20, .zeta = 1024.0};
  const Summary lazy = simulate(options, 1'000);
  EXPECT_LT(lazy.relative_squared_error, 1e-8);
  EXPECT_LT(lazy.upload_share, 0.5);
  EXPECT_GT(lazy.upload_share, 1.0 / options.age_max);
  EXPECT_LE(lazy.oldest, options.age_max);
}

TEST(LazySimulation, NobodyIsOlderThanTheBoundEvenWhenTheRuleNeverAsks) {
  const UploadRuleOptions options = {.age_max = 7, .zeta = 1e300};
  // Few enough rounds that no gradient comes to rest: a change of exactly 0 lets the rule ask.
  const Summary silent = simulate(options, 300);
  EXPECT_EQ(silent.oldest, 7U);
  EXPECT_NEAR(silent.upload_share, 1.0 / 7.0, 0.01);
  EXPECT_LT(silent.relative_squared_error, 0.1);
}

}  // namespace
}  // namespace gleaner
