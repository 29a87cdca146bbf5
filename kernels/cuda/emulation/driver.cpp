#include "kernels/cuda/emulation/driver.hpp"

#include <cstdlib>
#include <cstring>

#include "common/check.hpp"
#include "kernels/cuda/tables.hpp"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#endif
#endif
#ifndef ASAN_POISON_MEMORY_REGION
#define ASAN_POISON_MEMORY_REGION(address, size) (static_cast<void>(address), static_cast<void>(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) (static_cast<void>(address), static_cast<void>(size))
#endif

namespace gleaner::cuda::emulation {
namespace {

constexpr int kOutOfMemory = 2;
constexpr int kLost = 46;
constexpr int kFault = 700;
constexpr int kNotInACapture = 900;
constexpr int kNoise = 0x9d;

}  // namespace

EmulatedDriver::~EmulatedDriver() {
  for (const auto& [memory, bytes] : blocks_) {
    ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
    std::free(memory);
  }
}

Driver::Code EmulatedDriver::call() {
  if (!fault_.empty()) return kFault;
  return ++calls_ > device_.calls_until_lost ? kLost : 0;
}

Driver::Code EmulatedDriver::call_in_stream() {
  if (const auto code = call(); code != 0) return code;
  return capture_ ? kNotInACapture : 0;
}

Driver::Code EmulatedDriver::allocate(std::size_t bytes, void*& memory) {
  if (const auto code = call_in_stream(); code != 0) return code;
  if (bytes > device_.memory_bytes - allocated_bytes_) return kOutOfMemory;
  memory = std::malloc(bytes);
  GLEANER_CHECK(memory != nullptr);
  blocks_.emplace(memory, bytes);
  allocated_bytes_ += bytes;
  return 0;
}

Driver::Code EmulatedDriver::release(void* memory) {
  const auto block = blocks_.find(memory);
  GLEANER_CHECK(block != blocks_.end());
  ASAN_UNPOISON_MEMORY_REGION(memory, block->second);
  allocated_bytes_ -= block->second;
  blocks_.erase(block);
  std::free(memory);
  return call();
}

Driver::Code EmulatedDriver::allocate_pinned(std::size_t bytes, void*& memory) {
  if (const auto code = call_in_stream(); code != 0) return code;
  memory = std::malloc(bytes);
  if (memory == nullptr) return kOutOfMemory;
  ++open_handles_;
  return 0;
}

Driver::Code EmulatedDriver::release_pinned(void* memory) {
  std::free(memory);
  --open_handles_;
  return call();
}

Driver::Code EmulatedDriver::copy(CopyKind, void* to, const void* from, std::size_t bytes, Stream) {
  if (const auto code = call_in_stream(); code != 0) return code;
  if (bytes > 0) std::memcpy(to, from, bytes);
  return 0;
}

Driver::Code EmulatedDriver::fill(void* to, std::uint8_t byte, std::size_t bytes, Stream) {
  if (const auto code = call(); code != 0) return code;
  if (capture_) {
    capture_->push_back([=] {
      std::memset(to, byte, bytes);
      return 0;
    });
    return 0;
  }
  std::memset(to, byte, bytes);
  return 0;
}

Driver::Code EmulatedDriver::create_stream(Stream& stream) {
  if (const auto code = call(); code != 0) return code;
  stream = static_cast<Launcher*>(this);
  ++open_handles_;
  return 0;
}

Driver::Code EmulatedDriver::destroy_stream(Stream) {
  --open_handles_;
  return call();
}

Driver::Code EmulatedDriver::wait_for(Stream) { return call_in_stream(); }

Driver::Code EmulatedDriver::create_event(Event& event) {
  if (const auto code = call(); code != 0) return code;
  event = this;
  ++open_handles_;
  return 0;
}

Driver::Code EmulatedDriver::destroy_event(Event) {
  --open_handles_;
  return call();
}

Driver::Code EmulatedDriver::record(Event, Stream) { return call(); }
Driver::Code EmulatedDriver::let_wait(Stream, Event) { return call(); }
Driver::Code EmulatedDriver::wait_for_event(Event) { return call_in_stream(); }

Driver::Code EmulatedDriver::elapsed_ms(float& elapsed, Event, Event) {
  elapsed = 0.0F;
  return call();
}

Driver::Code EmulatedDriver::begin_capture(Stream) {
  if (const auto code = call_in_stream(); code != 0) return code;
  capture_.emplace();
  return 0;
}

Driver::Code EmulatedDriver::end_capture(Stream, Graph& graph) {
  GLEANER_CHECK(capture_.has_value());
  auto recording = std::make_unique<Recording>(std::move(*capture_));
  capture_.reset();
  if (const auto code = call(); code != 0) return code;
  graph = recording.release();
  ++open_handles_;
  ++captured_graphs_;
  return 0;
}

Driver::Code EmulatedDriver::launch_graph(Graph graph, Stream) {
  if (const auto code = call_in_stream(); code != 0) return code;
  ++graph_launch_count_;
  for (const Operation& operation : *static_cast<const Recording*>(graph)) {
    if (const auto code = operation(); code != 0) return code;
  }
  return 0;
}

Driver::Code EmulatedDriver::destroy_graph(Graph graph) {
  delete static_cast<Recording*>(graph);
  --open_handles_;
  return call();
}

std::string EmulatedDriver::describe(Code code) const {
  if (code == kNotInACapture) return "not permitted while a graph is captured";
  if (code == kOutOfMemory) return "out of memory";
  if (code == kFault) return fault_;
  return "the device is lost";
}

bool EmulatedDriver::is_out_of_memory(Code code) const { return code == kOutOfMemory; }

const Launches& EmulatedDriver::launches() const { return emulated::launches(); }

void EmulatedDriver::reuse(void* memory, std::size_t used, std::size_t size) {
  ASAN_UNPOISON_MEMORY_REGION(memory, size);
  std::memset(memory, kNoise, size);
  ASAN_POISON_MEMORY_REGION(static_cast<std::byte*>(memory) + used, size - used);
}

int EmulatedDriver::launch(const char* kernel, const Grid& grid, const std::function<void()>& body) {
  if (const auto code = call(); code != 0) return code;
  if (!capture_) return run(kernel, grid, body);
  capture_->push_back([this, kernel, grid, body] { return run(kernel, grid, body); });
  return 0;
}

Driver::Code EmulatedDriver::run(const char* kernel, const Grid& grid, const std::function<void()>& body) {
  ++launch_count_;
  if (const Status status = machine_.run(kernel, grid, body); !status) {
    fault_ = status.error().message();
    return kFault;
  }
  return 0;
}

}  // namespace gleaner::cuda::emulation
