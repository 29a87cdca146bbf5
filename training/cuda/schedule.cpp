#include "training/cuda/schedule.hpp"

#include <algorithm>

#include "common/check.hpp"

namespace gleaner::cuda {
namespace {

std::uint64_t parts_in(std::uint64_t samples) { return (samples + kPartRows - 1) / kPartRows; }

}  // namespace

ScheduleSize schedule_size(const LocalWork& work, std::uint32_t samples) {
  GLEANER_CHECK(samples > 0 && work.batch_size > 0 && work.epochs > 0);
  const std::uint64_t batch = std::min(work.batch_size, samples);
  const std::uint64_t full = samples / batch;
  const std::uint64_t rest = samples % batch;
  const std::uint64_t per_epoch = full + (rest != 0 ? 1 : 0);
  ScheduleSize size = {.rows = static_cast<std::uint32_t>(std::min<std::uint64_t>(batch, kPartRows)),
                       .steps = per_epoch * work.epochs};
  if (work.max_steps != 0) size.steps = std::min<std::uint64_t>(size.steps, work.max_steps);
  const std::uint64_t epochs = size.steps / per_epoch;
  const std::uint64_t left = size.steps % per_epoch;  // below per_epoch: full batches alone
  size.order = epochs * samples + left * batch;
  size.parts = epochs * (full * parts_in(batch) + parts_in(rest)) + left * parts_in(batch);
  return size;
}

Schedule schedule_of(const CohortTurn& turn) {
  const ScheduleSize size = schedule_size(turn.work, static_cast<std::uint32_t>(turn.samples.size()));
  Schedule schedule;
  schedule.parts.reserve(size.parts);
  schedule.order.reserve(size.order);
  std::vector<std::uint32_t> epoch;
  SampleOrder shuffled(epoch, turn.samples, turn.turn);
  std::uint64_t steps = 0;
  while (steps < size.steps) {
    shuffled.next_epoch();
    for (std::size_t first = 0; first < epoch.size() && steps < size.steps; first += turn.work.batch_size, ++steps) {
      const auto batch = static_cast<std::uint32_t>(std::min<std::size_t>(turn.work.batch_size, epoch.size() - first));
      for (std::uint32_t done = 0; done < batch; done += kPartRows) {
        const std::uint32_t rows = std::min(kPartRows, batch - done);
        schedule.parts.push_back({.first = static_cast<std::uint32_t>(schedule.order.size()),
                                  .rows = rows,
                                  .batch = batch,
                                  .ends = done + rows == batch ? 1U : 0U});
        const auto from = epoch.begin() + static_cast<std::ptrdiff_t>(first + done);
        schedule.order.insert(schedule.order.end(), from, from + rows);
      }
    }
  }
  GLEANER_CHECK(schedule.parts.size() == size.parts && schedule.order.size() == size.order);
  return schedule;
}

}  // namespace gleaner::cuda
