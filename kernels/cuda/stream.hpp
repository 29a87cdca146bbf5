#pragma once
// Streams, events, graphs and pinned memory that end with their owner; a failure to end is for the debug log: a
// lost device fails every one. The driver outlives them.

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include "common/error.hpp"
#include "kernels/cuda/driver.hpp"

namespace gleaner::cuda {

// A handle of the driver that is ended by one of its functions.
class Handle {
 public:
  using End = Driver::Code (Driver::*)(void*);

  Handle() = default;
  Handle(Driver& driver, void* handle, End end) : driver_(&driver), handle_(handle), end_(end) {}
  Handle(Handle&& other) noexcept
      : driver_(other.driver_), handle_(std::exchange(other.handle_, nullptr)), end_(other.end_) {}
  Handle& operator=(Handle&& other) noexcept {
    Handle moved(std::move(other));
    std::swap(driver_, moved.driver_);
    std::swap(handle_, moved.handle_);
    std::swap(end_, moved.end_);
    return *this;
  }
  ~Handle();

  void* get() const { return handle_; }

 private:
  Driver* driver_ = nullptr;
  void* handle_ = nullptr;
  End end_ = nullptr;
};

Result<Handle> make_stream(Driver& driver);
Result<Handle> make_event(Driver& driver);

// Copies between ordinary host memory and the device through two pinned halves, so that one is filled while the other
// travels. Both directions return when the host memory is free again: an upload may still be on its way.
class Stage {
 public:
  static Result<Stage> create(Driver& driver, std::size_t half_bytes);

  Status upload(const void* from, void* to, std::size_t bytes, Driver::Stream stream);
  Status download(const void* from, void* to, std::size_t bytes, Driver::Stream stream);

 private:
  struct Half {
    Handle memory;
    Handle free;  // the event after its last use
  };
  Stage(Driver& driver, std::size_t half_bytes) : driver_(&driver), half_bytes_(half_bytes) {}
  Status transfer(CopyKind kind, Half& half, void* to, const void* from, std::size_t bytes, Driver::Stream stream);

  Driver* driver_;
  std::size_t half_bytes_;
  std::array<Half, 2> halves_;
};

}  // namespace gleaner::cuda
