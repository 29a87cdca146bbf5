#pragma once
// The driver of the emulation: device memory is host memory full of noise, a stream is done at once, a graph is what
// was started while it was captured, and a seed orders blocks and threads. Tests limit its memory and let the device
// disappear. Under AddressSanitizer a kernel that leaves its buffer is found, rounding up included.

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/cuda/driver.hpp"
#include "kernels/cuda/emulation/machine.hpp"

namespace gleaner::cuda::emulation {

struct EmulatedDevice {
  std::uint64_t seed = 0;
  unsigned resident_blocks = 3;
  std::size_t memory_bytes = std::size_t{1} << 30U;
  std::uint64_t calls_until_lost = std::numeric_limits<std::uint64_t>::max();
};

class EmulatedDriver final : public Driver, public Launcher {
 public:
  explicit EmulatedDriver(const EmulatedDevice& device) : device_(device), machine_(device.seed) {}
  ~EmulatedDriver() override;
  EmulatedDriver(const EmulatedDriver&) = delete;
  EmulatedDriver& operator=(const EmulatedDriver&) = delete;

  Code allocate(std::size_t bytes, void*& memory) override;
  Code release(void* memory) override;
  Code allocate_pinned(std::size_t bytes, void*& memory) override;
  Code release_pinned(void* memory) override;
  Code copy(CopyKind kind, void* to, const void* from, std::size_t bytes, Stream stream) override;
  Code fill(void* to, std::uint8_t byte, std::size_t bytes, Stream stream) override;
  Code create_stream(Stream& stream) override;
  Code destroy_stream(Stream stream) override;
  Code wait_for(Stream stream) override;
  Code create_event(Event& event) override;
  Code destroy_event(Event event) override;
  Code record(Event event, Stream stream) override;
  Code let_wait(Stream stream, Event event) override;
  Code wait_for_event(Event event) override;
  Code elapsed_ms(float& elapsed, Event from, Event to) override;
  Code begin_capture(Stream stream) override;
  Code end_capture(Stream stream, Graph& graph) override;
  Code launch_graph(Graph graph, Stream stream) override;
  Code destroy_graph(Graph graph) override;
  std::string describe(Code code) const override;
  std::string describe_device() const override { return "emulation"; }
  bool is_out_of_memory(Code code) const override;
  unsigned resident_blocks() const override { return device_.resident_blocks; }
  std::size_t free_bytes() const override { return device_.memory_bytes - allocated_bytes_; }
  const Launches& launches() const override;
  void reuse(void* memory, std::size_t used, std::size_t size) override;

  int launch(const char* kernel, const Grid& grid, const std::function<void()>& body) override;

  // What has not been given back.
  std::size_t allocated_bytes() const { return allocated_bytes_; }
  std::size_t open_handles() const { return open_handles_; }
  std::uint64_t launch_count() const { return launch_count_; }  // of kernels, in graphs too
  std::uint64_t graph_launch_count() const { return graph_launch_count_; }
  std::uint64_t captured_graphs() const { return captured_graphs_; }

 private:
  // What a stream is asked to do, as a graph keeps it.
  using Operation = std::function<Code()>;
  using Recording = std::vector<Operation>;

  Code call();            // one more call of the device: does it still answer?
  Code call_in_stream();  // the same of a call that a capture does not allow
  Code run(const char* kernel, const Grid& grid, const std::function<void()>& body);

  EmulatedDevice device_;
  Machine machine_;
  std::map<void*, std::size_t> blocks_;
  std::size_t allocated_bytes_ = 0;
  std::size_t open_handles_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t launch_count_ = 0;
  std::uint64_t graph_launch_count_ = 0;
  std::uint64_t captured_graphs_ = 0;
  std::optional<Recording> capture_;
  std::string fault_;
};

}  // namespace gleaner::cuda::emulation
