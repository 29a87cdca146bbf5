#include <fmt/format.h>
#include <hwy/targets.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "benchmarks/kernels/rows.hpp"
#include "kernels/arithmetic.hpp"

namespace gleaner::bench {
namespace {

constexpr std::uint32_t kDimension = 10'000'000;

const KernelTable& cpu() { return **kernels_for(Backend::cpu); }

// What a program without these kernels does.
void nth_element_on_indices(const std::vector<float>& x, std::size_t k) {
  std::vector<std::uint32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::nth_element(order, order.begin() + static_cast<std::ptrdiff_t>(k - 1),
                           [&](std::uint32_t a, std::uint32_t b) {
                             const auto of_a = magnitude_bits(x[a]);
                             const auto of_b = magnitude_bits(x[b]);
                             return of_a != of_b ? of_a > of_b : a < b;
                           });
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k));
}

struct Named {
  const char* name;
  std::vector<float> x;
};

std::vector<Named> usual_vectors() {
  return {{"gaussian", gaussian(kDimension)}, {"heavy_tailed", heavy_tailed(kDimension)}};
}

const char* percent_of(std::uint32_t k) { return k == kDimension / 100 ? "1%" : "0.1%"; }

}  // namespace

void measure_select(KernelRows& rows) {
  for (const Named& named : usual_vectors()) {
    for (const std::uint32_t k : {kDimension / 100, kDimension / 1000}) {
      Selection fresh;
      Selection hinted;
      cpu().select(named.x, k, hinted);
      hinted.threshold_hint = hinted.threshold;
      const auto times = take_turns({{[&] { read_once(named.x); }, {}},
                                     {[&] { cpu().select(named.x, k, fresh); }, {}},
                                     {[&] { cpu().select(named.x, k, hinted); }, {}}},
                                    31);
      const std::string text = fmt::format("select, d = 1e7, k = {}, {}", percent_of(k), named.name);
      rows.push_back({.name = fmt::format("select_{}_{}", named.name, percent_of(k)),
                      .text = text + ": % of the speed of reading once",
                      .value = 100.0 * median_ratio(times[0], times[1]),
                      .target = k == kDimension / 100 ? 40.0 : 60.0,
                      .beside = {{"select", median(times[1]), "ms"},
                                 {"read", median(times[0]), "ms"},
                                 {"with the last threshold", 100.0 * median_ratio(times[0], times[2]), "%"}},
                      .open = {}});
      const auto peers = take_turns(
          {{[&] { nth_element_on_indices(named.x, k); }, {}}, {[&] { cpu().select(named.x, k, fresh); }, {}}}, 7);
      rows.push_back({.name = fmt::format("select_peer_{}_{}", named.name, percent_of(k)),
                      .text = text + ": times as fast as std::nth_element on indices",
                      .value = median_ratio(peers[0], peers[1]),
                      .target = 15.0,
                      .beside = {{"std::nth_element", median(peers[0]), "ms"}, {"select", median(peers[1]), "ms"}},
                      .open = {}});
    }
  }
}

void measure_fused(KernelRows& rows) {
  for (const Named& named : usual_vectors()) {
    for (const std::uint32_t k : {kDimension / 100, kDimension / 1000}) {
      const std::vector<float> start = gaussian(kDimension);
      std::vector<float> residual = start;
      Selection selection;
      Selection hinted;
      cpu().accumulate_and_select(named.x, residual, k, hinted);
      hinted.threshold_hint = hinted.threshold;
      const auto reset = [&] { std::ranges::copy(start, residual.begin()); };
      const auto times = take_turns({{[&] {
                                        float* to = residual.data();
                                        const float* from = named.x.data();
                                        for (std::size_t i = 0; i < kDimension; ++i) to[i] += from[i];
                                      },
                                      reset},
                                     {[&] { cpu().accumulate_and_select(named.x, residual, k, selection); }, reset},
                                     {[&] { cpu().accumulate_and_select(named.x, residual, k, hinted); }, reset}},
                                    31);
      rows.push_back({.name = fmt::format("fused_{}_{}", named.name, percent_of(k)),
                      .text = fmt::format("residual += update and select, d = 1e7, k = {}, {}: times a plain r += g",
                                          percent_of(k), named.name),
                      .value = median_ratio(times[1], times[0]),
                      .limit = Limit::at_most,
                      .target = 1.6,
                      .beside = {{"fused", median(times[1]), "ms"},
                                 {"plain", median(times[0]), "ms"},
                                 {"with the last threshold", median_ratio(times[2], times[0]), "times"}},
                      .open = {}});
    }
  }
}

namespace {

std::vector<Named> hard_vectors() {
  const std::vector<float> base = gaussian(kDimension);
  const auto make = [&](const char* name, const std::function<float(std::size_t)>& at) {
    Named named{name, std::vector<float>(kDimension)};
    for (std::size_t i = 0; i < kDimension; ++i) named.x[i] = at(i);
    return named;
  };
  std::vector<Named> all;
  all.push_back(make("all zero", [](std::size_t) { return 0.0F; }));
  all.push_back(make("all equal", [](std::size_t) { return 1.5F; }));
  all.push_back(make("nine magnitudes", [](std::size_t i) { return static_cast<float>(i * 2654435761U % 9); }));
  all.push_back(make("denormals", [&](std::size_t i) { return base[i] * 1e-40F; }));
  all.push_back(make("ascending", [](std::size_t i) { return static_cast<float>(i); }));
  all.push_back(make("descending", [](std::size_t i) { return static_cast<float>(kDimension - i); }));
  all.push_back(make("two scales", [&](std::size_t i) { return i % 2 == 0 ? base[i] : base[i] * 1e4F; }));
  all.push_back(make("99.95% zeros", [&](std::size_t i) { return i * 2654435761U % 2000 == 0 ? base[i] : 0.0F; }));
  return all;
}

}  // namespace

void measure_weak_spots(KernelRows& rows) {
  const std::vector<float> usual = gaussian(kDimension);
  Selection selection;
  const std::vector<Named> hard = hard_vectors();
  std::vector<std::uint32_t> counts = {0, 1, kDimension / 100, kDimension / 2, kDimension};
  for (const std::uint32_t k : counts) {
    KernelRow row{.name = fmt::format("hard_{}", k),
                  .text = fmt::format("select, d = 1e7, k = {}, the slowest of hard inputs: times Gaussian", k),
                  .value = 0.0,
                  .limit = Limit::at_most,
                  .target = 4.0,
                  .beside = {},
                  .open = {}};
    for (const Named& named : hard) {
      const auto times = take_turns(
          {{[&] { cpu().select(usual, k, selection); }, {}}, {[&] { cpu().select(named.x, k, selection); }, {}}}, 5);
      const double ratio = median_ratio(times[1], times[0]);
      if (ratio <= row.value) continue;
      row.value = ratio;
      row.beside = {{named.name, median(times[1]), "ms"}, {"Gaussian", median(times[0]), "ms"}};
    }
    rows.push_back(std::move(row));
  }
}

void measure_threads(KernelRows& rows) {
  constexpr std::size_t kLarge = 100'000'000;
  std::vector<float> x = gaussian(kDimension);
  x.resize(kLarge);
  for (std::size_t i = kDimension; i < kLarge; ++i) x[i] = x[i - kDimension] * 1.0001F;
  const auto on_two = [](std::size_t parts, const std::function<void(std::size_t)>& part) {
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < parts; ++i) threads.emplace_back([&part, i] { part(i); });
    part(0);
    for (std::thread& thread : threads) thread.join();
  };
  const Parallel two = {.width = 2, .run = on_two};
  Selection alone;
  Selection together;
  together.parallel = &two;
  const std::uint32_t k = kLarge / 100;
  const auto times =
      take_turns({{[&] { read_once(x); }, {}},
                  {[&] { on_two(2, [&](std::size_t i) { read_once(x.data() + i * kLarge / 2, kLarge / 2); }); }, {}},
                  {[&] { cpu().select(x, k, alone); }, {}},
                  {[&] { cpu().select(x, k, together); }, {}}},
                 11);
  const double floor = median_ratio(times[0], times[1]);
  KernelRow row{
      .name = "two_threads",
      .text = "select, d = 1e8, k = 1%, two threads: times as fast as one",
      .value = median_ratio(times[2], times[3]),
      .target = 1.6,
      .beside = {{"two", median(times[3]), "ms"}, {"one", median(times[2]), "ms"}, {"reading scales", floor, "times"}},
      .open = {}};
  if (!row.met() && floor < 1.6) row.open = "reading alone does not scale so here";
  rows.push_back(std::move(row));
}

void measure_targets(KernelRows& rows) {
  KernelRow row{.name = "avx2_against_avx512",
                .text = "select, d = 1e7, k = 1%, AVX2: % of the speed of AVX-512",
                .target = 50.0,
                .beside = {},
                .open = {}};
  const std::int64_t supported = hwy::SupportedTargets();
  if ((supported & HWY_AVX3) == 0) {
    row.open = "this processor has no AVX-512";
  } else {
    const std::vector<float> x = gaussian(kDimension);
    Selection selection;
    const auto use = [](std::int64_t target) {
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    };
    const auto run = [&] { cpu().select(x, kDimension / 100, selection); };
    const auto times = take_turns({{run, [&] { use(HWY_AVX3); }}, {run, [&] { use(HWY_AVX2); }}}, 21);
    use(0);
    row.value = 100.0 * median_ratio(times[0], times[1]);
    row.beside = {{"AVX-512", median(times[0]), "ms"}, {"AVX2", median(times[1]), "ms"}};
  }
  rows.push_back(std::move(row));
}

}  // namespace gleaner::bench
