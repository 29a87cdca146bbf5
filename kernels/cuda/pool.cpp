#include "kernels/cuda/pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "common/log.hpp"

namespace gleaner::cuda {

Error driver_error(const Driver& driver, Driver::Code code, std::string_view doing) {
  return {ErrorCode::fatal, fmt::format("the GPU failed while {}: {}", doing, driver.describe(code))};
}

// Sizes in steps of an eighth of the power of two below: a block fits again although the next request differs a little.
std::size_t Pool::rounded(std::size_t bytes) {
  bytes = std::max<std::size_t>(bytes, 1);
  const std::size_t step = std::max<std::size_t>(256, std::bit_floor(bytes) / 8);
  return (bytes + step - 1) / step * step;
}

Memory::~Memory() {
  if (address_ != nullptr) pool_->take_back(address_, bytes_);
}

Pool::~Pool() { trim(); }

Result<Memory> Pool::allocate(std::size_t bytes) {
  // A sum of the sizes below stays far from overflow.
  if (bytes > budget_bytes_) {
    return fail(ErrorCode::fatal, fmt::format("GPU memory: a request of {} bytes is larger than the whole budget of {}",
                                              bytes, budget_bytes_));
  }
  const std::size_t size = rounded(bytes);
  void* address = nullptr;
  if (const auto ready = ready_.find(size); ready != ready_.end()) {
    address = ready->second;
    ready_.erase(ready);
  } else {
    if (held_bytes_ + size > budget_bytes_) trim();
    if (held_bytes_ + size > budget_bytes_) {
      return fail(
          ErrorCode::fatal,
          fmt::format("GPU memory: a request of {} bytes does not fit into the budget of {}, of which {} are in "
                      "use; use smaller batches or a larger budget",
                      bytes, budget_bytes_, in_use_bytes_));
    }
    auto code = driver_.allocate(size, address);
    if (code != 0 && driver_.is_out_of_memory(code)) {
      trim();
      code = driver_.allocate(size, address);
    }
    if (code != 0 && driver_.is_out_of_memory(code)) {
      return fail(ErrorCode::fatal,
                  fmt::format("GPU memory: the device has no room for a request of {} bytes, although the budget is {} "
                              "and {} are in use: other programs hold the rest",
                              bytes, budget_bytes_, in_use_bytes_));
    }
    if (code != 0) {
      lost_ = true;
      return fail(driver_error(driver_, code, fmt::format("allocating {} bytes", bytes)));
    }
    held_bytes_ += size;
  }
  in_use_bytes_ += size;
  driver_.reuse(address, bytes, size);
  return Memory(shared_from_this(), address, size);
}

void Pool::take_back(void* address, std::size_t bytes) {
  in_use_bytes_ -= bytes;
  ready_.emplace(bytes, address);
}

void Pool::trim() {
  for (const auto& [bytes, address] : ready_) {
    held_bytes_ -= bytes;
    if (const auto code = driver_.release(address); code != 0) {
      log_debug("{}", driver_error(driver_, code, "releasing memory").message());
    }
  }
  ready_.clear();
}

}  // namespace gleaner::cuda
