#pragma once
// What one device is asked to do in one round, what comes of it, and the parts of it that every way of computing has in
// common: what is refused, in which order the samples come, and what divergence is called.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/error.hpp"
#include "common/random.hpp"
#include "training/dataset.hpp"
#include "training/model.hpp"

namespace gleaner {

struct LocalWork {
  std::uint32_t epochs = 1;
  std::uint32_t batch_size = 32;  // the last batch of an epoch may be smaller
  float learning_rate = 0.05F;
  float momentum = 0.0F;        // v = momentum * v + gradient; starts at zero in every round
  float weight_decay = 0.0F;    // added to the gradient as weight_decay * parameters
  std::uint32_t max_steps = 0;  // batches, 0: no limit
};

// Names one device's turn in one round: where its random draws come from.
struct Turn {
  std::uint64_t seed = 0;
  std::uint64_t round = 0;  // below 2^63
  std::uint32_t device = 0;
};

struct LocalResult {
  std::vector<float> delta;  // parameters before - after
  std::uint64_t samples_seen = 0;
  double mean_loss = 0.0;  // over the samples seen, each before its step
  std::uint32_t steps = 0;
};

// Of rounds: a turn's other draws come from the rounds beyond.
constexpr std::uint64_t kRoundsEnd = std::uint64_t{1} << 63;

// bad_input, says what is wrong: sizes that do not fit the model, no samples, settings out of range.
Status check_sizes(const ModelSpec& spec, std::size_t parameter_count, const DatasetShape& shape,
                   std::span<const float> parameters);
// available: samples of the data set
Status check_samples(std::uint32_t available, std::span<const std::uint32_t> samples);
Status check_work(const LocalWork& work);

// The order in which a turn's samples come, shuffled anew every epoch, in memory of the caller.
class SampleOrder {
 public:
  SampleOrder(std::vector<std::uint32_t>& order, std::span<const std::uint32_t> samples, const Turn& turn);
  void next_epoch();

 private:
  std::vector<std::uint32_t>& order_;
  Random random_;
};

// bad_input
std::unexpected<Error> diverged(const char* what, std::uint32_t steps, const LocalWork& work);
inline constexpr const char* kLossNotFinite = "the loss is not finite";
inline constexpr const char* kParameterNotFinite = "a parameter is not finite";

}  // namespace gleaner
