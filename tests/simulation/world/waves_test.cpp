// Devices that are trained in waves: the same messages, times and bytes, whoever trains; on the emulated GPU nearly the
// same model.

#include <algorithm>
#include <numeric>

#include "bed.hpp"
#include "coordinator/engine/model_owner.hpp"
#include "kernels/cuda/emulation/driver.hpp"
#include "training/cuda/batch_trainer.hpp"
#include "training/cuda/tables.hpp"

namespace gleaner::simulation {
namespace {

constexpr std::uint32_t kDevices = 9;

class SharedPatterns final : public SampleSource {
 public:
  SharedPatterns()
      : whole_(synthetic_dataset({.samples = 600, .classes = 4, .height = 8, .width = 8, .noise = 120},
                                 {.pattern = 1, .noise = 77})) {}
  std::uint32_t count_of(std::uint32_t device) const override { return 20 + 4 * (device % 7); }
  std::shared_ptr<const Dataset> samples_of(std::uint32_t device) const override {
    return std::make_shared<const Dataset>(subset(whole_, places_of(device)));
  }
  const DatasetShape& shape() const override { return whole_; }
  const Dataset* whole() const override { return &whole_; }
  std::vector<std::uint32_t> places_of(std::uint32_t device) const override {
    std::vector<std::uint32_t> places(count_of(device));
    for (std::uint32_t i = 0; i < places.size(); ++i) places[i] = (device * 61 + 7 * i) % 600;
    return places;
  }

 private:
  Dataset whole_;
};

// Counts what it was asked for.
struct Counting : WaveTrainer {
  std::uint64_t waves = 0;
  std::uint64_t selected = 0;
  std::size_t largest = 0;
  void count(std::span<const CohortTurn> turns) {
    ++waves;
    largest = std::max(largest, turns.size());
  }
};

// Every other selection is left to the device itself.
struct ByCpu final : Counting {
  ByCpu(const ModelSpec& spec, const Dataset& all) : network(spec), dataset(all) {}

  Status train(std::span<const CohortTurn> all, std::span<FusedSelection> selections, const Take& take) override {
    if (fails_after == waves) return fail(ErrorCode::fatal, "GPU memory: the budget of 7 bytes is small");
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto result = train_local(network, dataset, all[i].samples, all[i].parameters, all[i].work, all[i].turn);
      if (result && !selections.empty() && i % 2 == 0) {
        FusedSelection& fused = selections[i];
        const KernelTable& kernels = **kernels_for(Backend::reference);
        kernels.accumulate_and_select(result->delta, fused.residual, fused.k, fused.selection);
        fused.is_done = true;
      }
      if (!selections.empty()) selected += selections[i].is_done ? 1 : 0;
      take(i, std::move(result));
    }
    count(all);
    return {};
  }
  std::string describe() const override { return "the CPU"; }

  Network network;
  const Dataset& dataset;
  std::uint64_t fails_after = UINT64_MAX;
};

struct ByEmulation final : Counting {
  ByEmulation(const ModelSpec& spec, const Dataset& all)
      : driver({.seed = 4}),
        engine(cuda::Engine::create(driver, {.budget_bytes = 1U << 26U, .staging_bytes = 1U << 16U}).value()),
        trainer(cuda::BatchTrainer::create(*engine, cuda::own_products(*engine, cuda::emulated::training_launches()),
                                           cuda::emulated::training_launches(), spec, all)
                    .value()) {}

  Status train(std::span<const CohortTurn> all, std::span<FusedSelection> selections, const Take& take) override {
    count(all);
    return trainer->train(all, selections, [&](std::size_t turn, Result<LocalResult> result) {
      if (!selections.empty()) selected += selections[turn].is_done ? 1 : 0;
      take(turn, std::move(result));
    });
  }
  std::string describe() const override { return trainer->describe(); }

  cuda::emulation::EmulatedDriver driver;
  std::unique_ptr<cuda::Engine> engine;
  std::unique_ptr<cuda::BatchTrainer> trainer;
};

struct Outcome {
  Ending ending;
  std::uint64_t selected = 0;
  std::size_t largest = 0;
};

template <class Trainer>
Outcome run_with(BedSpec spec, const std::function<void(Trainer&)>& before = {}) {
  const SharedPatterns data;
  Bed bed(std::move(spec));
  bed.other_data = &data;
  Trainer trainer(*model_of(bed.experiment().run), *data.whole());
  if (before) before(trainer);
  bed.waves = &trainer;
  Outcome outcome;
  outcome.ending = bed.run();
  outcome.selected = trainer.selected;
  outcome.largest = trainer.largest;
  return outcome;
}

Ending run_on_pool(BedSpec spec) {
  const SharedPatterns data;
  Bed bed(std::move(spec));
  bed.other_data = &data;
  return bed.run();
}

class WaveRecipes : public testing::TestWithParam<std::string> {};

// Who gathers and trains them is no part of the experiment.
TEST_P(WaveRecipes, GatheringChangesNoBit) {
  for (const bool reproducible : {true, false}) {
    BedSpec spec{.recipe = GetParam(), .devices = kDevices, .reproducible = reproducible, .checkpoint_every = 4};
    if (!reproducible) spec.more = "quorum = 0.6\ndeadline = \"10s\"\n";
    const Ending expected = run_on_pool(spec);
    ASSERT_EQ(expected.error, "");
    const Outcome actual = run_with<ByCpu>(spec);
    ASSERT_EQ(actual.ending.error, "");
    EXPECT_EQ(actual.ending, expected);
    EXPECT_GT(actual.largest, kDevices / 2);
    EXPECT_EQ(actual.selected > 0, spec.recipe != "fedavg");
  }
}

TEST_P(WaveRecipes, FaultsAreTheSame) {
  BedSpec spec{.recipe = GetParam(), .devices = kDevices, .faults = *faults_of_level("heavy")};
  for (spec.faults.seed = 1; spec.faults.seed <= 3; ++spec.faults.seed) {
    EXPECT_EQ(run_with<ByCpu>(spec).ending, run_on_pool(spec)) << spec.faults.seed;
  }
}

// As many uploads in as many rounds, twice the same bits, and a model as good.
TEST_P(WaveRecipes, OnTheEmulatedGpu) {
  const BedSpec spec{.recipe = GetParam(), .devices = kDevices, .rounds = 6};
  const Ending expected = run_on_pool(spec);
  ASSERT_EQ(expected.error, "");
  const Outcome actual = run_with<ByEmulation>(spec);
  ASSERT_EQ(actual.ending.error, "");
  EXPECT_EQ(run_with<ByEmulation>(spec).ending, actual.ending);
  EXPECT_EQ(actual.selected > 0, spec.recipe != "fedavg");
  ASSERT_EQ(actual.ending.records.size(), expected.records.size());
  for (std::size_t i = 0; i < expected.records.size(); ++i) {
    const RoundRecord& mine = actual.ending.records[i];
    const RoundRecord& other = expected.records[i];
    EXPECT_EQ(mine.uploads, other.uploads) << i;
    EXPECT_EQ(mine.skips, other.skips) << i;
    EXPECT_EQ(mine.accuracy.has_value(), other.accuracy.has_value());
    if (!mine.accuracy) continue;
    EXPECT_NEAR(*mine.accuracy, *other.accuracy, 0.02);
    EXPECT_NEAR(*mine.loss, *other.loss, 0.02 * (1.0 + *other.loss));
  }
}

// What is selected by tensor is no one row: the device selects.
TEST(Waves, ByTensorTheDeviceSelects) {
  const BedSpec spec{.recipe = "topk", .devices = kDevices, .more = "[compression]\nper_tensor = true\n"};
  const Outcome actual = run_with<ByCpu>(spec);
  ASSERT_EQ(actual.ending.error, "");
  EXPECT_EQ(actual.selected, 0U);
  EXPECT_EQ(actual.ending, run_on_pool(spec));
}

TEST(Waves, ThatFailEndTheExperimentAndSayWhy) {
  const BedSpec spec{.recipe = "topk", .devices = kDevices};
  const Outcome actual = run_with<ByCpu>(spec, [](ByCpu& trainer) { trainer.fails_after = 2; });
  EXPECT_NE(actual.ending.error.find("budget of 7 bytes"), std::string::npos) << actual.ending.error;
}

INSTANTIATE_TEST_SUITE_P(All, WaveRecipes, testing::Values("fedavg", "topk", "gsasg"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace gleaner::simulation
