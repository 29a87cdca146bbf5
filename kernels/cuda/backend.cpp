// The cuda row of the kernel tables.

#include <memory>
#include <utility>

#include "common/log.hpp"
#include "kernels/backends.hpp"
#include "kernels/cuda/device_driver.hpp"
#include "kernels/cuda/host_table.hpp"

namespace gleaner {
namespace {

// Never taken down: CUDA may be gone before the last static object is.
struct Device {
  std::unique_ptr<cuda::Driver> driver;
  cuda::SharedEngine shared;
};

Result<Device*> open() {
  auto device = std::make_unique<Device>();
  GLEANER_ASSIGN(device->driver, cuda::open_device());
  // A tenth is left to whoever else uses the GPU.
  const std::size_t budget_bytes = device->driver->free_bytes() / 10 * 9;
  if (budget_bytes == 0) {
    return fail(ErrorCode::bad_input, "CUDA: the GPU has no free memory; or choose the backend cpu or auto");
  }
  GLEANER_ASSIGN(device->shared.engine, cuda::Engine::create(*device->driver, {.budget_bytes = budget_bytes}));
  log_debug("CUDA: {} bytes of GPU memory at most", budget_bytes);
  return device.release();
}

const Result<Device*>& device() {
  static const Result<Device*> opened = open();
  return opened;
}

struct OnDevice {
  static cuda::SharedEngine& shared() { return (*device())->shared; }

  // The CPU's bits are the same, so that a round is not lost with the GPU. Each kind of failure is told once.
  static const KernelTable& after_failure(const Error& error) {
    static bool told_of_memory = false;
    static bool told_of_loss = false;
    const bool lost = shared().engine->lost();
    bool& told = lost ? told_of_loss : told_of_memory;
    if (!std::exchange(told, true)) {
      log_error("{}; the CPU does this {}, with the same results", error.message(),
                lost ? "and all that follows" : "instead, and whatever else does not fit");
    } else {
      log_debug("{}; the CPU does this instead", error.message());
    }
    return cpu_kernels();
  }
};

}  // namespace

Result<const KernelTable*> cuda_kernels() {
  static constexpr KernelTable table = cuda::HostTable<OnDevice>::table("cuda");
  if (!device()) return fail(device().error());
  return &table;
}

}  // namespace gleaner
