#pragma once
// Trains many devices at once, where a backend can: what train_cohort() is to a pool of threads. Results are those of
// train_local() within rounding, errors are the same; a device's result depends on its own turn alone. One caller.

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "common/error.hpp"
#include "kernels/kernels.hpp"
#include "training/cohort_trainer.hpp"

namespace gleaner {

// What is to be done with a turn's delta while it is still on the device: residual += delta, then the k largest of the
// residual are selected, with the bits of KernelTable::accumulate_and_select().
struct FusedSelection {
  std::span<float> residual;  // of the model's size; untouched unless is_done
  std::uint32_t k = 0;
  Selection selection;
  bool is_done = false;  // set when the turn's result is handed over; where it is not, the caller does it
};

class WaveTrainer {
 public:
  using Take = std::function<void(std::size_t turn, Result<LocalResult> result)>;

  virtual ~WaveTrainer() = default;

  // The results come in order, wave by wave. selections: one a turn, or none at all. The Error is the backend's own
  // (out of memory, a device that failed): turns that have had no result by then get none.
  virtual Status train(std::span<const CohortTurn> turns, std::span<FusedSelection> selections, const Take& take) = 0;

  // For people: what it trains on, and how many devices make a wave of the last turns that came.
  virtual std::string describe() const = 0;
};

}  // namespace gleaner
