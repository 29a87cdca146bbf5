#pragma once
// Local work of many devices at once on a GPU, or on the emulation: a wave of as many devices as a budget has room for,
// one launch a kernel for all of them. The data set lies on the device once; every turn draws the order of its samples
// as train_local() does. The launches of a few steps are a graph for every (devices, rows, steps) that comes
// again, made once.
//
// With products that know counts (products.hpp) a device's result is the same bits in every wave; with cuBLAS it may
// differ in rounding from one size of a wave to another.

#include <chrono>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/engine.hpp"
#include "training/cuda/products.hpp"
#include "training/cuda/step.hpp"
#include "training/cuda/wave_memory.hpp"
#include "training/wave_trainer.hpp"

namespace gleaner::cuda {

struct WaveFigures {
  std::uint64_t budget_bytes = 0;
  std::uint64_t data_bytes = 0;    // in use before any slot: the samples, and what others have
  std::uint64_t device_bytes = 0;  // one slot
  std::uint32_t devices = 0;       // a wave; 0: not even one has room
};
std::string text(const WaveFigures& figures);

// Where the time of waves went, added up. Every stage is waited for, which is time that they share otherwise.
struct StageSeconds {
  double prepare = 0.0;  // orders drawn, tables and models on the device
  double steps = 0.0;
  double select = 0.0;
  double fetch = 0.0;  // deltas on the host, and what is done with them
};

class BatchTrainer final : public WaveTrainer {
 public:
  // The engine outlives the trainer. Errors: bad_input (labels beyond the classes, another shape), out of memory.
  static Result<std::unique_ptr<BatchTrainer>> create(Engine& engine, std::unique_ptr<Products> products,
                                                      const TrainingLaunches& launches, const ModelSpec& spec,
                                                      const Dataset& dataset);
  ~BatchTrainer() override;

  // What waves of these turns look like.
  Result<WaveFigures> figures(std::span<const CohortTurn> turns, std::span<const FusedSelection> selections = {}) const;

  // Never more devices in a wave than that; 0: no limit but the budget.
  void limit_wave(std::uint32_t devices) { limit_ = devices; }

  void measure(StageSeconds* seconds) { seconds_ = seconds; }  // null: no longer

  Status train(std::span<const CohortTurn> turns, std::span<FusedSelection> selections, const Take& take) override;
  std::string describe() const override;

 private:
  struct WaveWork;
  struct Graph {
    std::uint32_t devices = 0;
    std::uint32_t steps = 0;
    float learning_rate = 0.0F;
    Handle handle;  // empty: these steps have come once, launch by launch
  };

  BatchTrainer(Engine& engine, std::unique_ptr<Products> products, const TrainingLaunches& launches,
               const ModelSpec& spec, const Dataset& dataset);
  Status check(const CohortTurn& turn) const;
  Result<Room> room_for(std::span<const CohortTurn> turns, std::span<const FusedSelection> selections) const;
  WaveFigures figures_of(const Room& room) const;
  Status make_room(const Room& room, std::size_t turns);
  // batch_wave.cpp: one wave, slots in the order of their parts so that those that work are the first.
  WaveWork work_of(std::span<const std::size_t> wave, std::span<const CohortTurn> turns) const;
  Status train_wave(const WaveWork& work, std::span<const CohortTurn> turns);
  Status fill_slots(const WaveWork& work, std::span<const CohortTurn> turns);
  Status set_starts(const WaveWork& work, std::span<const CohortTurn> turns);
  Status run_steps(const WaveWork& work, float learning_rate);
  Status run_piece(std::uint32_t devices, std::uint32_t steps, float learning_rate);
  Status select(const WaveWork& work, std::span<const Progress> progress, std::span<FusedSelection> selections);
  Status hand_over(const WaveWork& work, std::span<const Progress> progress, std::span<const CohortTurn> turns,
                   const Take& take);
  Status stage_ends(double StageSeconds::* stage);
  Step step(std::uint32_t devices, float learning_rate) const;

  Engine& engine_;
  std::unique_ptr<Products> products_;
  const TrainingLaunches& launches_;
  ModelSpec spec_;
  Layout layout_;
  DatasetShape shape_;
  std::uint32_t samples_ = 0;
  Buffer<std::uint8_t> pixels_;
  Buffer<std::uint8_t> labels_;
  Samples on_device_;
  std::uint32_t limit_ = 0;
  StageSeconds* seconds_ = nullptr;
  std::chrono::steady_clock::time_point stage_began_;
  std::optional<WaveMemory> memory_;
  std::list<Graph> graphs_;  // the last used in front; of memory_
  std::optional<WaveFigures> last_;
};

}  // namespace gleaner::cuda
