#pragma once
// Local work of one device in one round, gradients for upload rules, and evaluation. Functions of their arguments: the
// same arguments give the same result on one machine. Units: samples, steps, epochs; losses are mean cross-entropy in
// nats.
// Errors are bad_input and say what is wrong. Work that came in a plan is the far side's doing: a daemon reports such
// an error and goes on.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/error.hpp"
#include "training/dataset.hpp"
#include "training/local_work.hpp"
#include "training/network.hpp"

namespace gleaner {

// Memory that local work uses and leaves; reuse one object to reuse it. A result never depends on what is in it.
struct LocalScratch {
  std::vector<std::uint32_t> order;
  GatheredBatch gathered;
  std::vector<float> gradient;
  std::vector<float> velocity;
};

// SGD over my_samples (indices into dataset), shuffled anew every epoch. Errors: no samples, shapes that do not fit,
// settings out of range, loss or parameters no longer finite.
Result<LocalResult> train_local(Network& network, const Dataset& dataset, std::span<const std::uint32_t> my_samples,
                                std::span<const float> parameters, const LocalWork& work, const Turn& turn);
Result<LocalResult> train_local(Network& network, const Dataset& dataset, std::span<const std::uint32_t> my_samples,
                                std::span<const float> parameters, const LocalWork& work, const Turn& turn,
                                LocalScratch& scratch);
// The same into a result whose memory is used again; its content is meaningless after an error.
Status train_local(Network& network, const Dataset& dataset, std::span<const std::uint32_t> my_samples,
                   std::span<const float> parameters, const LocalWork& work, const Turn& turn, LocalScratch& scratch,
                   LocalResult& result);

// The batch that an upload rule looks at: batch_size of my_samples without repetition (all, when there are fewer), the
// same for the same turn, independent of the shuffles of train_local.
std::vector<std::uint32_t> draw_batch(std::span<const std::uint32_t> my_samples, std::uint32_t batch_size,
                                      const Turn& turn);

// out = gradient of the mean loss over the samples; returns that loss. LASG-WK2 calls it for two models on one batch.
Result<double> gradient_at(Network& network, const Dataset& dataset, std::span<const std::uint32_t> samples,
                           std::span<const float> parameters, std::span<float> out);

struct Evaluation {
  double accuracy = 0.0;  // 0 to 1
  double mean_loss = 0.0;
  std::uint64_t samples = 0;
};

// Over all samples of the dataset, on that many threads (0: one per core). The result does not depend on the number.
Result<Evaluation> evaluate(const Network& network, const Dataset& dataset, std::span<const float> parameters,
                            unsigned threads = 1);

// Error unless the parameters have the network's size and the dataset its shape.
Status check_fit(const Network& network, const Dataset& dataset, std::span<const float> parameters);

}  // namespace gleaner
