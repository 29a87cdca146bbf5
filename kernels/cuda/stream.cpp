#include "kernels/cuda/stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "common/log.hpp"
#include "kernels/cuda/pool.hpp"

namespace gleaner::cuda {

Handle::~Handle() {
  if (handle_ == nullptr) return;
  if (const auto code = (driver_->*end_)(handle_); code != 0) {
    log_debug("{}", driver_error(*driver_, code, "giving back a stream, an event, a graph or memory").message());
  }
}

Result<Handle> make_stream(Driver& driver) {
  void* stream = nullptr;
  if (const auto code = driver.create_stream(stream); code != 0) {
    return fail(driver_error(driver, code, "making a stream"));
  }
  return Handle(driver, stream, &Driver::destroy_stream);
}

Result<Handle> make_event(Driver& driver) {
  void* event = nullptr;
  if (const auto code = driver.create_event(event); code != 0) {
    return fail(driver_error(driver, code, "making an event"));
  }
  return Handle(driver, event, &Driver::destroy_event);
}

Result<Stage> Stage::create(Driver& driver, std::size_t half_bytes) {
  Stage stage(driver, half_bytes);
  for (Half& half : stage.halves_) {
    void* memory = nullptr;
    if (const auto code = driver.allocate_pinned(half_bytes, memory); code != 0) {
      return fail(driver_error(driver, code, fmt::format("allocating {} bytes of pinned host memory", half_bytes)));
    }
    half.memory = Handle(driver, memory, &Driver::release_pinned);
    GLEANER_ASSIGN(half.free, make_event(driver));
  }
  return stage;
}

Status Stage::transfer(CopyKind kind, Half& half, void* to, const void* from, std::size_t bytes,
                       Driver::Stream stream) {
  auto code = driver_->copy(kind, to, from, bytes, stream);
  if (code == 0) code = driver_->record(half.free.get(), stream);
  if (code != 0) return fail(driver_error(*driver_, code, fmt::format("copying {} bytes", bytes)));
  return {};
}

Status Stage::upload(const void* from, void* to, std::size_t bytes, Driver::Stream stream) {
  for (std::size_t done = 0, turn = 0; done < bytes; ++turn) {
    Half& half = halves_[turn % 2];
    const std::size_t part = std::min(half_bytes_, bytes - done);
    if (const auto code = driver_->wait_for_event(half.free.get()); code != 0) {
      return fail(driver_error(*driver_, code, "waiting for a copy to the device"));
    }
    std::memcpy(half.memory.get(), static_cast<const std::byte*>(from) + done, part);
    GLEANER_TRY(
        transfer(CopyKind::to_device, half, static_cast<std::byte*>(to) + done, half.memory.get(), part, stream));
    done += part;
  }
  return {};
}

Status Stage::download(const void* from, void* to, std::size_t bytes, Driver::Stream stream) {
  const std::size_t parts = (bytes + half_bytes_ - 1) / half_bytes_;
  const auto size_of = [&](std::size_t part) { return std::min(half_bytes_, bytes - part * half_bytes_); };
  // Part i is on its way while part i - 1 is copied out.
  for (std::size_t part = 0; part <= parts; ++part) {
    if (part < parts) {
      Half& half = halves_[part % 2];
      const auto* source = static_cast<const std::byte*>(from) + part * half_bytes_;
      if (const auto code = driver_->wait_for_event(half.free.get()); code != 0) {
        return fail(driver_error(*driver_, code, "waiting for an earlier copy"));
      }
      GLEANER_TRY(transfer(CopyKind::to_host, half, half.memory.get(), source, size_of(part), stream));
    }
    if (part == 0) continue;
    Half& half = halves_[(part - 1) % 2];
    if (const auto code = driver_->wait_for_event(half.free.get()); code != 0) {
      return fail(driver_error(*driver_, code, "waiting for a copy from the device"));
    }
    std::memcpy(static_cast<std::byte*>(to) + (part - 1) * half_bytes_, half.memory.get(), size_of(part - 1));
  }
  return {};
}

}  // namespace gleaner::cuda
