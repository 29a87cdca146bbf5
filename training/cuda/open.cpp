#include "training/cuda/open.hpp"

#include <utility>

#include "common/log.hpp"
#include "kernels/cuda/device_driver.hpp"
#include "training/cuda/batch_trainer.hpp"
#include "training/cuda/cublas_products.hpp"
#include "training/cuda/tables.hpp"

namespace gleaner {
namespace {

// Ends from the last to the first.
struct Device final : WaveTrainer {
  std::unique_ptr<cuda::Driver> driver;
  std::unique_ptr<cuda::Engine> engine;
  cuda::Buffer<std::byte> workspace;  // of cuBLAS
  std::unique_ptr<cuda::BatchTrainer> trainer;

  Status train(std::span<const CohortTurn> turns, std::span<FusedSelection> selections, const Take& take) override {
    return trainer->train(turns, selections, take);
  }
  std::string describe() const override { return trainer->describe(); }
};

Result<std::unique_ptr<cuda::Products>> products_of(Device& device) {
  const auto calls = cuda::load_cublas();
  if (!calls) {
    log_info("{}: products run on kernels of our own", calls.error().message());
    return cuda::own_products(*device.engine, cuda::device::training_launches());
  }
  GLEANER_ASSIGN(device.workspace, device.engine->allocate<std::byte>(cuda::kCublasWorkspaceBytes));
  return cuda::cublas_products(*calls, device.workspace.data());
}

}  // namespace

Result<std::unique_ptr<WaveTrainer>> open_wave_trainer(const ModelSpec& spec, const Dataset& dataset) {
  auto device = std::make_unique<Device>();
  GLEANER_ASSIGN(device->driver, cuda::open_device());
  // A quarter is left to the kernel table and to whoever else uses the GPU.
  const std::size_t budget_bytes = device->driver->free_bytes() / 4 * 3;
  GLEANER_ASSIGN(device->engine, cuda::Engine::create(*device->driver, {.budget_bytes = budget_bytes}));
  GLEANER_ASSIGN(auto products, products_of(*device));
  GLEANER_ASSIGN(device->trainer, cuda::BatchTrainer::create(*device->engine, std::move(products),
                                                             cuda::device::training_launches(), spec, dataset));
  return device;
}

}  // namespace gleaner
