#pragma once
// Bytes that start on an 8-byte boundary, as decode_body wants them; allocated once, not initialised. Moves, never
// copies.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "common/bytes.hpp"

namespace gleaner {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t size_bytes)
      : words_(size_bytes == 0 ? nullptr
                               : std::make_unique_for_overwrite<std::uint64_t[]>(
                                     size_bytes / sizeof(std::uint64_t) + (size_bytes % sizeof(std::uint64_t) != 0))),
        size_bytes_(size_bytes) {}

  static AlignedBuffer copy_of(ByteView bytes) {
    AlignedBuffer buffer(bytes.size());
    if (!bytes.empty()) std::memcpy(buffer.bytes().data(), bytes.data(), bytes.size());
    return buffer;
  }

  std::span<std::byte> bytes() { return {reinterpret_cast<std::byte*>(words_.get()), size_bytes_}; }
  ByteView view() const { return {reinterpret_cast<const std::byte*>(words_.get()), size_bytes_}; }
  std::size_t size() const { return size_bytes_; }

 private:
  std::unique_ptr<std::uint64_t[]> words_;
  std::size_t size_bytes_ = 0;
};

}  // namespace gleaner
