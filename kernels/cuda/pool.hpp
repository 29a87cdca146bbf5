#pragma once
// Device memory within a budget. Blocks come back to the pool, not to the driver, and are given out again in the order
// of one stream: whoever takes a block uses it after whoever had it before. Not thread-safe. The driver outlives the
// pool, which lives as long as the last of its buffers.

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "common/error.hpp"
#include "kernels/cuda/driver.hpp"

namespace gleaner::cuda {

// The Error of a call that CUDA refused while something was done.
Error driver_error(const Driver& driver, Driver::Code code, std::string_view doing);

class Pool;

// One block; empty when default-made or moved from.
class Memory {
 public:
  Memory() = default;
  Memory(std::shared_ptr<Pool> pool, void* address, std::size_t bytes)
      : pool_(std::move(pool)), address_(address), bytes_(bytes) {}
  Memory(Memory&& other) noexcept
      : pool_(std::move(other.pool_)), address_(std::exchange(other.address_, nullptr)), bytes_(other.bytes_) {}
  Memory& operator=(Memory&& other) noexcept {
    Memory moved(std::move(other));
    std::swap(pool_, moved.pool_);
    std::swap(address_, moved.address_);
    std::swap(bytes_, moved.bytes_);
    return *this;
  }
  ~Memory();

  void* address() const { return address_; }
  std::size_t bytes() const { return address_ == nullptr ? 0 : bytes_; }

 private:
  std::shared_ptr<Pool> pool_;
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
};

template <class T>
class Buffer {
 public:
  Buffer() = default;
  Buffer(Memory memory, std::size_t size) : memory_(std::move(memory)), size_(size) {}

  T* data() const { return static_cast<T*>(memory_.address()); }
  std::size_t size() const { return size_; }

 private:
  Memory memory_;
  std::size_t size_ = 0;
};

class Pool : public std::enable_shared_from_this<Pool> {
 public:
  Pool(Driver& driver, std::size_t budget_bytes) : driver_(driver), budget_bytes_(budget_bytes) {}
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // At least one byte. The Error names the budget and the request.
  Result<Memory> allocate(std::size_t bytes);

  std::size_t budget_bytes() const { return budget_bytes_; }
  static std::size_t rounded(std::size_t bytes);  // what a request takes of the budget

  bool lost() const { return lost_; }  // an allocation failed for another reason than a lack of room
  std::size_t bytes_in_use() const { return in_use_bytes_; }  // as rounded up
  std::size_t bytes_held() const { return held_bytes_; }      // in use, or ready to be given out again

 private:
  friend class Memory;
  void take_back(void* address, std::size_t bytes);
  void trim();

  Driver& driver_;
  std::size_t budget_bytes_;
  std::size_t in_use_bytes_ = 0;
  std::size_t held_bytes_ = 0;
  bool lost_ = false;
  std::multimap<std::size_t, void*> ready_;
};

}  // namespace gleaner::cuda
