#include "benchmarks/training/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "benchmarks/training/blas_network.hpp"
#include "common/check.hpp"
#include "common/random.hpp"
#include "training/cohort_trainer.hpp"
#include "training/named_data.hpp"

namespace gleaner::bench {
namespace {

constexpr double kTargetPercent = 70.0;
constexpr std::uint32_t kLargeBatch = 256;
constexpr float kRate = 0.01F;

struct Task {
  const char* model;
  const char* data;
  std::uint32_t samples;     // of all devices together: some tenths of a second for either side
  std::uint32_t per_device;  // of the recipes that use the model
};
constexpr Task kTasks[] = {{"softmax", "fashion-mnist", 40'960, 512},
                           {"mlp", "fashion-mnist", 10'240, 512},
                           {"lenet", "fashion-mnist", 2'560, 512},
                           {"cnn", "cifar10", 512, 64}};

// The devices' samples follow each other; what they hold is no matter for the time.
class Bed {
 public:
  explicit Bed(const Task& task)
      : dataset_(*synthetic_stand_in(task.data, Split::train, task.samples)),
        spec_(*model_spec(task.model, dataset_)),
        parameters_(initial_parameters(spec_, 1)),
        samples_(task.samples),
        peer_(spec_) {
    std::iota(samples_.begin(), samples_.end(), 0U);
  }

  void run_cohort(WorkerPool& pool, const Task& task, std::uint32_t batch) {
    std::vector<CohortTurn> turns;
    for (std::uint32_t first = 0; first < task.samples; first += task.per_device) {
      turns.push_back({.samples = std::span(samples_).subspan(first, task.per_device),
                       .parameters = parameters_,
                       .work = {.epochs = 1, .batch_size = batch, .learning_rate = kRate},
                       .turn = {.seed = 1, .round = 1, .device = first}});
    }
    train_cohort(pool, spec_, dataset_, turns,
                 [](std::size_t, const Result<LocalResult>& result) { GLEANER_CHECK(result.has_value()); });
  }

  // One training over all samples, shuffled: on one thread, gathered batch by batch as ours.
  void run_peer() {
    std::vector<float> parameters = parameters_;
    std::vector<std::uint32_t> order = samples_;
    Random random(1, Purpose::test);
    for (std::size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[random.below(static_cast<std::uint32_t>(i))]);
    }
    for (std::size_t first = 0; first < order.size(); first += kLargeBatch) {
      const std::size_t count = std::min<std::size_t>(kLargeBatch, order.size() - first);
      gather(dataset_, std::span(order).subspan(first, count), gathered_);
      peer_.step(parameters, gathered_.inputs, gathered_.labels, kRate);
    }
  }

 private:
  Dataset dataset_;
  ModelSpec spec_;
  std::vector<float> parameters_;
  std::vector<std::uint32_t> samples_;
  GatheredBatch gathered_;
  BlasNetwork peer_;
};

double per_second(std::uint32_t samples, double milliseconds) { return samples / milliseconds * 1000.0; }

}  // namespace

void measure_training(const TrainingOptions& options, KernelRows& rows) {
  WorkerPool pool(1);  // a core against a core: the peer has one thread as well
  for (const Task& task : kTasks) {
    if (!options.model.empty() && options.model != task.model) continue;
    Bed bed(task);
    constexpr std::uint32_t kBatches[] = {10, 20, 32};
    std::vector<Subject> subjects = {{[&] { bed.run_peer(); }, {}}};
    for (const std::uint32_t batch : kBatches)
      subjects.push_back({[&, batch] { bed.run_cohort(pool, task, batch); }, {}});
    const auto times = take_turns(subjects, options.turns);
    for (std::size_t i = 0; i < std::size(kBatches); ++i) {
      rows.push_back({.name = fmt::format("train_{}_{}", task.model, kBatches[i]),
                      .text = fmt::format("% of the samples/s of one OpenBLAS training with batch {} are trained by "
                                          "devices of {} samples with batch {}, {}",
                                          kLargeBatch, task.per_device, kBatches[i], task.model),
                      .value = 100.0 * median_ratio(times[0], times[i + 1]),
                      .limit = Limit::at_least,
                      .target = kTargetPercent,
                      .beside = {{"images", per_second(task.samples, median(times[i + 1])), "/s and core"},
                                 {"OpenBLAS", per_second(task.samples, median(times[0])), "/s"}},
                      .open = {}});
    }
  }
}

}  // namespace gleaner::bench
