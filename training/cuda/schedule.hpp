#pragma once
// What a turn does, step by step: which samples, in the order in which train_local() takes them, in parts that have
// room in a slot.

#include <cstdint>
#include <vector>

#include "training/cohort_trainer.hpp"
#include "training/cuda/launches.hpp"

namespace gleaner::cuda {

// Of a batch; a larger one is worked off in parts, as a Network does.
constexpr std::uint32_t kPartRows = 256;

struct ScheduleSize {
  std::uint32_t rows = 0;  // of the largest part
  std::uint64_t parts = 0;
  std::uint64_t order = 0;  // samples, all epochs together
  std::uint64_t steps = 0;
};
// Of work that passes check_work(), on so many samples.
ScheduleSize schedule_size(const LocalWork& work, std::uint32_t samples);

struct Schedule {
  std::vector<Part> parts;
  std::vector<std::uint32_t> order;
};
Schedule schedule_of(const CohortTurn& turn);

}  // namespace gleaner::cuda
