// Training many devices at once on the GPU: against the CPU, and a round of the CIFAR-10 recipe (1000 users with 50
// samples each, 50 of them a round, batches of 10, one epoch, the two-convolution CNN).

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>

#include "benchmarks/cuda/parts.hpp"
#include "common/random.hpp"
#include "kernels/kernels.hpp"
#include "training/cuda/batch_trainer.hpp"
#include "training/cuda/cublas_products.hpp"
#include "training/cuda/tables.hpp"
#include "training/synthetic.hpp"

namespace gleaner::gpu_bench {
namespace {

using cuda::BatchTrainer;
using cuda::Engine;

constexpr double kTolerance = 1e-3;  // of the largest entry of a delta
constexpr int kRounds = 9;

struct Cohort {
  struct Size {
    std::uint32_t devices = 0;
    std::uint32_t samples_each = 0;  // 0: of each another number
    std::uint32_t hidden = 0;        // 0: the model's own
  };
  Cohort(const char* model, const SyntheticSpec& shape, std::uint64_t seed, const Size& size)
      : dataset(synthetic_dataset(shape, {.pattern = seed, .noise = seed + 1})),
        spec(*model_spec(model, dataset, {.hidden = std::string_view(model) == "softmax" ? 0U : size.hidden})),
        start(initial_parameters(spec, seed)) {
    Random random(seed, Purpose::test);
    for (std::uint32_t device = 0; device < size.devices; ++device) {
      auto& mine = samples.emplace_back();
      const std::uint32_t count = size.samples_each != 0 ? size.samples_each : 1 + random.below(40);
      for (std::uint32_t i = 0; i < count; ++i) mine.push_back(random.below(dataset.samples));
    }
    for (std::uint32_t device = 0; device < size.devices; ++device) {
      turns.push_back({.samples = samples[device],
                       .parameters = start,
                       .work = {.epochs = 1, .batch_size = 10, .learning_rate = 0.05F},
                       .turn = {.seed = seed, .round = 1, .device = device}});
      residuals.push_back(random_vector(start.size(), seed + 100 + device));
      for (float& entry : residuals.back()) entry *= 1e-3F;
    }
  }
  Cohort(const Cohort&) = delete;
  Cohort& operator=(const Cohort&) = delete;

  std::vector<FusedSelection> selections(std::vector<std::vector<float>>& from) const {
    std::vector<FusedSelection> all;
    const auto k = static_cast<std::uint32_t>(start.size() / 100 + 1);
    for (auto& residual : from) all.push_back({.residual = residual, .k = k, .selection = {}});
    return all;
  }

  Dataset dataset;
  ModelSpec spec;
  std::vector<float> start;
  std::vector<std::vector<std::uint32_t>> samples;
  std::vector<CohortTurn> turns;
  std::vector<std::vector<float>> residuals;
};

struct Bench {
  // Ours, or cuBLAS's; null where there is none.
  static Result<std::unique_ptr<Bench>> create(cuda::Driver& driver, const Cohort& cohort, bool with_cublas) {
    auto bench = std::make_unique<Bench>();
    GLEANER_ASSIGN(bench->engine, Engine::create(driver, {.budget_bytes = driver.free_bytes() / 4 * 3}));
    const auto& launches = cuda::device::training_launches();
    auto products = cuda::own_products(*bench->engine, launches);
    if (with_cublas) {
      const auto calls = cuda::load_cublas();
      if (!calls) return nullptr;
      GLEANER_ASSIGN(bench->workspace, bench->engine->allocate<std::byte>(cuda::kCublasWorkspaceBytes));
      GLEANER_ASSIGN(products, cuda::cublas_products(*calls, bench->workspace.data()));
    }
    GLEANER_ASSIGN(bench->trainer,
                   BatchTrainer::create(*bench->engine, std::move(products), launches, cohort.spec, cohort.dataset));
    return bench;
  }

  std::unique_ptr<Engine> engine;
  cuda::Buffer<std::byte> workspace;
  std::unique_ptr<BatchTrainer> trainer;
};

Status check_one(const LocalResult& actual, const LocalResult& expected, const std::string& what) {
  double largest = 0.0;
  double apart = 0.0;
  for (std::size_t i = 0; i < expected.delta.size(); ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(expected.delta[i])));
    apart = std::max(apart, std::fabs(static_cast<double>(expected.delta[i]) - static_cast<double>(actual.delta[i])));
  }
  if (actual.steps == expected.steps && actual.samples_seen == expected.samples_seen && apart <= kTolerance * largest &&
      std::fabs(actual.mean_loss - expected.mean_loss) <= kTolerance * (1.0 + expected.mean_loss)) {
    return {};
  }
  return fail(ErrorCode::fatal, fmt::format("{}: {:.3g} apart where the largest entry is {:.3g}, loss {} and {}", what,
                                            apart, largest, actual.mean_loss, expected.mean_loss));
}

// What was selected from what was trained, against the kernel table on the same delta.
Status check_selection(const FusedSelection& fused, std::vector<float> residual, const LocalResult& result,
                       const std::string& what) {
  GLEANER_ASSIGN(const KernelTable* cpu, kernels_for(Backend::cpu));
  Selection expected;
  cpu->accumulate_and_select(result.delta, residual, fused.k, expected);
  const auto bits = [](float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); };
  if (fused.is_done && fused.selection.indices == expected.indices &&
      std::ranges::equal(fused.selection.values, expected.values, bits) &&
      std::ranges::equal(fused.residual, residual, bits)) {
    return {};
  }
  return fail(ErrorCode::fatal, fmt::format("{}: another selection than the CPU's", what));
}

Status check_cohort(cuda::Driver& driver, const Cohort& cohort, bool with_cublas) {
  GLEANER_ASSIGN(const auto bench, Bench::create(driver, cohort, with_cublas));
  if (bench == nullptr) return {};
  auto residuals = cohort.residuals;
  auto selections = cohort.selections(residuals);
  Network network(cohort.spec);
  Status wrong;
  GLEANER_TRY(bench->trainer->train(cohort.turns, selections, [&](std::size_t i, Result<LocalResult> result) {
    if (!wrong) return;
    const CohortTurn& turn = cohort.turns[i];
    const auto expected = train_local(network, cohort.dataset, turn.samples, turn.parameters, turn.work, turn.turn);
    const auto what =
        fmt::format("{} with {}, device {}", cohort.spec.name, with_cublas ? "cuBLAS" : "own products", i);
    if (!result || !expected) {
      wrong = fail(ErrorCode::fatal, fmt::format("{}: it was not trained", what));
      return;
    }
    wrong = check_one(*result, *expected, what);
    if (wrong) wrong = check_selection(selections[i], cohort.residuals[i], *result, what);
  }));
  return wrong;
}

// The floor: four times four bytes a parameter and step, read twice, read and written once more, and 24 bytes an
// activation; at the speed at which the device copies.
double floor_bytes(const Cohort& cohort) {
  const auto layout = cuda::layout_of(cohort.spec);
  double bytes = 0.0;
  for (const CohortTurn& turn : cohort.turns) {
    const double samples = static_cast<double>(turn.samples.size());
    bytes += std::ceil(samples / turn.work.batch_size) * 16.0 * layout.parameters +
             samples * 24.0 * static_cast<double>(layout.output_floats);
  }
  return bytes;
}

Result<double> copy_speed(Engine& engine) {
  constexpr std::size_t kFloats = 100'000'000;
  GLEANER_ASSIGN(const auto from, engine.allocate<float>(kFloats));
  GLEANER_ASSIGN(const auto to, engine.allocate<float>(kFloats));
  std::vector<double> times;
  for (int run = 0; run <= kRounds; ++run) {
    GLEANER_TRY(engine.wait());
    const auto began = std::chrono::steady_clock::now();
    GLEANER_TRY(engine.done(engine.driver().copy(cuda::CopyKind::on_device, to.data(), from.data(),
                                                 kFloats * sizeof(float), engine.stream()),
                            "copying on the device"));
    GLEANER_TRY(engine.wait());
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
  std::ranges::sort(times);
  return 2.0 * kFloats * sizeof(float) / times[times.size() / 2];
}

Status measure_round(Bench& bench, const Cohort& cohort, const std::string& name, Report& report) {
  GLEANER_ASSIGN(const double speed, copy_speed(*bench.engine));
  auto residuals = cohort.residuals;
  std::vector<double> totals;
  cuda::StageSeconds stages;
  for (int run = 0; run <= kRounds; ++run) {
    auto selections = cohort.selections(residuals);
    // The first round makes the graphs; the last one is waited for stage by stage.
    bench.trainer->measure(run == kRounds ? &stages : nullptr);
    const auto began = std::chrono::steady_clock::now();
    GLEANER_TRY(bench.trainer->train(cohort.turns, selections, [](std::size_t, const Result<LocalResult>&) {}));
    if (run > 0 && run < kRounds) {
      totals.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    }
  }
  std::ranges::sort(totals);
  const double all = stages.prepare + stages.steps + stages.select + stages.fetch;
  const double floor_seconds = floor_bytes(cohort) / speed;
  const auto row = [&](const std::string& what, double figure, const char* unit) {
    report.add({.name = fmt::format("{}, {}", name, what), .figure = figure, .unit = unit, .least = {}, .most = {}});
  };
  row("a round", totals[totals.size() / 2] * 1e3, "ms");
  row("share of preparing", stages.prepare / all, "");
  row("share of the steps", stages.steps / all, "");
  row("share of selecting 1 %", stages.select / all, "");
  row("share of fetching", stages.fetch / all, "");
  row("the steps' floor at copy speed", floor_seconds * 1e3, "ms");
  row("the steps, times their floor", stages.steps / floor_seconds, "");
  return {};
}

}  // namespace

Status check_training(cuda::Driver& driver, std::uint64_t seed, std::uint32_t size) {
  // Small where every access is looked at.
  const bool small = size < 100'000;
  const std::uint32_t side = small ? 16 : 20;
  for (const char* model : {"softmax", "mlp", "lenet", "cnn", "leaf-cnn"}) {
    const Cohort cohort(
        model,
        {.samples = 300, .classes = 10, .height = side, .width = side, .noise = 160, .channels = small ? 1U : 3U}, seed,
        {.devices = small ? 3U : 12U, .samples_each = 0, .hidden = small ? 16U : 0U});
    for (const bool with_cublas : {false, true}) GLEANER_TRY(check_cohort(driver, cohort, with_cublas));
  }
  return {};
}

Status measure_training(cuda::Driver& driver, std::uint64_t seed, Report& report) {
  const Cohort cohort("cnn", {.samples = 2'500, .classes = 10, .height = 32, .width = 32, .noise = 160, .channels = 3},
                      seed, {.devices = 50, .samples_each = 50});
  for (const bool with_cublas : {true, false}) {
    GLEANER_ASSIGN(const auto bench, Bench::create(driver, cohort, with_cublas));
    if (bench == nullptr) continue;
    const auto name = fmt::format("CIFAR-10, 50 devices, {}", with_cublas ? "cuBLAS" : "own products");
    GLEANER_TRY(measure_round(*bench, cohort, name, report));
  }
  return {};
}

}  // namespace gleaner::gpu_bench
