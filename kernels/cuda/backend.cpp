// The cuda row of the kernel tables.

#include <memory>

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
};

}  // namespace

Result<const KernelTable*> cuda_kernels() {
  static constexpr KernelTable table = cuda::HostTable<OnDevice>::table("cuda");
  if (!device()) return fail(device().error());
  return &table;
}

}  // namespace gleaner
