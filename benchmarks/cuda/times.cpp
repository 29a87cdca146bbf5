#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "benchmarks/cuda/parts.hpp"
#include "kernels/cuda/engine.hpp"
#include "kernels/cuda/stream.hpp"

namespace gleaner::gpu_bench {
namespace {

using cuda::Buffer;
using cuda::DeviceSelection;
using cuda::Engine;
using cuda::Rows;

constexpr int kRuns = 21;

struct Timer {
  Engine& engine;
  cuda::Handle from;
  cuda::Handle to;

  static Result<Timer> create(Engine& engine) {
    GLEANER_ASSIGN(auto from, cuda::make_event(engine.driver()));
    GLEANER_ASSIGN(auto to, cuda::make_event(engine.driver()));
    return Timer{engine, std::move(from), std::move(to)};
  }

  Result<double> seconds(const std::function<Status()>& work) {
    cuda::Driver& driver = engine.driver();
    const auto check = [&](cuda::Driver::Code code) -> Status {
      if (code != 0) return fail(cuda::driver_error(driver, code, "taking the time"));
      return {};
    };
    GLEANER_TRY(check(driver.record(from.get(), engine.stream())));
    GLEANER_TRY(work());
    GLEANER_TRY(check(driver.record(to.get(), engine.stream())));
    GLEANER_TRY(check(driver.wait_for_event(to.get())));
    float elapsed_ms = 0.0F;
    GLEANER_TRY(check(driver.elapsed_ms(elapsed_ms, from.get(), to.get())));
    return static_cast<double>(elapsed_ms) / 1e3;
  }
};

// The medians of works that are run in turns; the first turn only warms up.
Result<std::vector<double>> medians(Timer& timer, std::span<const std::function<Status()>> works) {
  std::vector<std::vector<double>> all(works.size());
  for (int run = 0; run <= kRuns; ++run) {
    for (std::size_t i = 0; i < works.size(); ++i) {
      GLEANER_ASSIGN(const double seconds, timer.seconds(works[i]));
      if (run > 0) all[i].push_back(seconds);
    }
  }
  std::vector<double> middle;
  for (auto& times : all) {
    std::ranges::nth_element(times, times.begin() + kRuns / 2);
    middle.push_back(times[kRuns / 2]);
  }
  return middle;
}

Result<Rows> equal_rows(Engine& engine, std::uint32_t count, std::uint32_t size, std::uint32_t k) {
  return engine.rows(std::vector<std::uint32_t>(count, size), std::vector<std::uint32_t>(count, k));
}

std::function<Status()> copying(Engine& engine, const Buffer<float>& from, const Buffer<float>& to) {
  return [&]() -> Status {
    const auto code = engine.driver().copy(cuda::CopyKind::on_device, to.data(), from.data(),
                                           from.size() * sizeof(float), engine.stream());
    if (code != 0) return fail(cuda::driver_error(engine.driver(), code, "copying on the device"));
    return {};
  };
}

// d = 1e8; the floor is 16 d bytes: read the update and the residual, write the residual, read it again.
Status measure_fused(Engine& engine, std::uint64_t seed, Report& report) {
  constexpr std::uint32_t kSize = 100'000'000;
  GLEANER_ASSIGN(auto timer, Timer::create(engine));
  GLEANER_ASSIGN(const auto update, engine.uploaded(std::span<const float>(random_vector(kSize, seed))));
  GLEANER_ASSIGN(const auto residual, engine.uploaded(std::span<const float>(random_vector(kSize, seed + 1))));
  GLEANER_ASSIGN(const auto copy, engine.allocate<float>(kSize));
  GLEANER_ASSIGN(const auto equal, engine.allocate<float>(kSize));
  GLEANER_TRY(engine.fill_with_zeros(equal));
  GLEANER_ASSIGN(const auto percent, equal_rows(engine, 1, kSize, kSize / 100));
  GLEANER_ASSIGN(const auto permille, equal_rows(engine, 1, kSize, kSize / 1'000));
  GLEANER_ASSIGN(const auto half, equal_rows(engine, 1, kSize, kSize / 2));
  DeviceSelection selection;
  const std::function<Status()> works[] = {
      copying(engine, update, copy),
      [&] { return engine.accumulate_and_select(percent, update, residual, selection); },
      [&] { return engine.accumulate_and_select(permille, update, residual, selection); },
      [&] { return engine.select(percent, update, selection); },
      [&] { return engine.select(percent, equal, selection); },
      [&] { return engine.select(half, update, selection); }};
  GLEANER_ASSIGN(const auto times, medians(timer, works));
  const double copy_speed = 8.0 * kSize / times[0];
  const double floor = 16.0 * kSize;
  report.add({.name = "device copy, 1e8 floats, read and write", .figure = copy_speed / 1e9, .unit = "GB/s"});
  report.add({.name = "fused select, d = 1e8, k = 1 %", .figure = times[1] * 1e3, .unit = "ms"});
  report.add({.name = "fused select, d = 1e8, k = 1 %: 16 d bytes, of copy speed",
              .figure = floor / times[1] / copy_speed,
              .least = 0.6});
  report.add({.name = "fused select, d = 1e8, k = 0.1 %: 16 d bytes, of copy speed",
              .figure = floor / times[2] / copy_speed,
              .least = 0.6});
  report.add({.name = "select, d = 1e8, all zero, times the normal case", .figure = times[4] / times[3], .most = 4.0});
  report.add({.name = "select, d = 1e8, k = d / 2, times k = 1 %", .figure = times[5] / times[3], .most = 4.0});
  return {};
}

Status measure_rows(Engine& engine, std::uint64_t seed, Report& report) {
  constexpr std::uint32_t kRows = 1'000;
  constexpr std::uint32_t kSize = 160'000;
  GLEANER_ASSIGN(auto timer, Timer::create(engine));
  GLEANER_ASSIGN(const auto update, engine.uploaded(std::span<const float>(random_vector(kRows * kSize, seed))));
  GLEANER_ASSIGN(const auto residual, engine.uploaded(std::span<const float>(random_vector(kRows * kSize, seed + 1))));
  GLEANER_ASSIGN(const auto one, equal_rows(engine, 1, kRows * kSize, kRows * kSize / 100));
  GLEANER_ASSIGN(const auto many, equal_rows(engine, kRows, kSize, kSize / 100));
  DeviceSelection of_one;
  DeviceSelection of_many;
  const std::function<Status()> works[] = {
      [&] { return engine.accumulate_and_select(one, update, residual, of_one); },
      [&] { return engine.accumulate_and_select(many, update, residual, of_many); }};
  GLEANER_ASSIGN(const auto times, medians(timer, works));
  report.add({.name = "fused select, one vector of 1.6e8, k = 1 %", .figure = times[0] * 1e3, .unit = "ms"});
  report.add({.name = "fused select, 1000 rows of 160,000, k = 1 %", .figure = times[1] * 1e3, .unit = "ms"});
  report.add({.name = "1000 rows of 160,000, times one vector", .figure = times[1] / times[0], .most = 2.0});
  return {};
}

// 100 updates of 1e5 entries into 1e7 sums; the floor reads 8 bytes an entry, and reads and writes every sum once.
Status measure_scatter(Engine& engine, std::uint64_t seed, Report& report) {
  constexpr std::uint32_t kUpdates = 100;
  constexpr std::uint32_t kEntries = 100'000;
  constexpr std::uint32_t kSize = 10'000'000;
  GLEANER_ASSIGN(auto timer, Timer::create(engine));
  std::vector<std::uint64_t> first;
  std::vector<std::uint32_t> indices;
  for (std::uint32_t update = 0; update < kUpdates; ++update) {
    first.push_back(indices.size());
    const auto jitter = random_vector(kEntries, seed + update);
    for (std::uint32_t j = 0; j < kEntries; ++j) {
      const auto step = static_cast<std::uint32_t>((jitter[j] + 4.0F) * 12.0F);
      indices.push_back(j * (kSize / kEntries) + step % (kSize / kEntries));
    }
  }
  first.push_back(indices.size());
  const std::vector<std::uint32_t> weights(kUpdates, 600);
  const auto values = random_vector(indices.size(), seed);
  GLEANER_ASSIGN(const auto updates,
                 engine.updates({.first = first, .weights = weights, .indices = indices, .values = values}));
  GLEANER_ASSIGN(const auto sum, engine.allocate<std::int64_t>(kSize));
  GLEANER_TRY(engine.fill_with_zeros(sum));
  GLEANER_ASSIGN(const auto from, engine.allocate<float>(kSize * 3));
  GLEANER_ASSIGN(const auto to, engine.allocate<float>(kSize * 3));
  const std::function<Status()> works[] = {copying(engine, from, to),
                                           [&] { return engine.scatter_add(updates, 30, sum); }};
  GLEANER_ASSIGN(const auto times, medians(timer, works));
  const double entries = static_cast<double>(indices.size());
  const double copy_speed = 24.0 * kSize / times[0];
  const double floor_seconds = (8.0 * entries + 16.0 * kSize) / copy_speed;
  report.add({.name = "scatter, 100 x 1e5 into 1e7", .figure = entries / times[1] / 1e6, .unit = "M/s"});
  report.add({.name = "scatter, 100 x 1e5 into 1e7, of its floor at copy speed", .figure = floor_seconds / times[1]});
  return {};
}

}  // namespace

Status measure(cuda::Driver& driver, std::uint64_t seed, Report& report) {
  GLEANER_ASSIGN(const auto engine, Engine::create(driver, {.budget_bytes = driver.free_bytes() / 10 * 9}));
  GLEANER_TRY(measure_fused(*engine, seed, report));
  GLEANER_TRY(measure_rows(*engine, seed, report));
  return measure_scatter(*engine, seed, report);
}

}  // namespace gleaner::gpu_bench
