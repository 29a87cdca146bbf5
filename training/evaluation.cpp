#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

#include "training/trainer.hpp"

namespace gleaner {
namespace {

// Fixed, so that every product has the same shape whatever the number of threads.
constexpr std::size_t kChunkSamples = 128;
constexpr unsigned kMaxThreads = 32;  // OpenBLAS has buffers for a limited number of callers

}  // namespace

Result<Evaluation> evaluate(const Network& network, const Dataset& dataset, std::span<const float> parameters,
                            unsigned threads) {
  GLEANER_TRY(check_fit(network, dataset, parameters));
  if (dataset.samples == 0) return fail(ErrorCode::bad_input, "the data set has no samples to evaluate");
  std::vector<std::uint32_t> all(dataset.samples);
  std::iota(all.begin(), all.end(), 0U);
  std::vector<Network::Score> scores((all.size() + kChunkSamples - 1) / kChunkSamples);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    Network own(network.spec());
    GatheredBatch gathered;
    for (std::size_t chunk = next++; chunk < scores.size(); chunk = next++) {
      const std::size_t first = chunk * kChunkSamples;
      gather(dataset, std::span(all).subspan(first, std::min(kChunkSamples, all.size() - first)), gathered);
      scores[chunk] = own.score(parameters, {gathered.inputs, gathered.labels});
    }
  };
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  threads = std::min({threads, kMaxThreads, static_cast<unsigned>(std::min<std::size_t>(scores.size(), kMaxThreads))});
  {
    std::vector<std::jthread> helpers;
    for (unsigned i = 1; i < threads; ++i) helpers.emplace_back(work);
    work();
  }
  Network::Score total;
  for (const Network::Score& score : scores) {
    total.loss_sum += score.loss_sum;
    total.correct += score.correct;
  }
  const auto samples = static_cast<double>(dataset.samples);
  return Evaluation{static_cast<double>(total.correct) / samples, total.loss_sum / samples, dataset.samples};
}

}  // namespace gleaner
