#pragma once
// Which turns a wave does, in which slots.

#include <vector>

#include "training/cuda/batch_trainer.hpp"
#include "training/cuda/schedule.hpp"

namespace gleaner::cuda {

struct BatchTrainer::WaveWork {
  std::vector<std::size_t> turns;      // of the cohort, in order
  std::vector<Schedule> schedules;     // of each of them
  std::vector<std::uint32_t> slot_of;  // of each of them
  std::vector<std::size_t> in_slot;    // which of them; those with most parts first
};

}  // namespace gleaner::cuda
