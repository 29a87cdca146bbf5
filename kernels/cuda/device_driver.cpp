#include "kernels/cuda/device_driver.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernels/cuda/tables.hpp"

namespace gleaner::cuda {
namespace {

constexpr int kLeastCapability = 75;  // major and minor; what the kernels are compiled for at least

Driver::Code number(cudaError_t error) { return static_cast<Driver::Code>(error); }

std::string text(cudaError_t error) {
  return fmt::format("{}: {} ({})", cudaGetErrorName(error), cudaGetErrorString(error), number(error));
}

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }
cudaGraphExec_t graph_of(void* graph) { return static_cast<cudaGraphExec_t>(graph); }

class DeviceDriver final : public Driver {
 public:
  DeviceDriver(std::string name, unsigned resident_blocks)
      : name_(std::move(name)), resident_blocks_(resident_blocks) {}

  Code allocate(std::size_t bytes, void*& memory) override { return forgotten(cudaMalloc(&memory, bytes)); }
  Code release(void* memory) override { return number(cudaFree(memory)); }
  Code allocate_pinned(std::size_t bytes, void*& memory) override { return forgotten(cudaMallocHost(&memory, bytes)); }
  Code release_pinned(void* memory) override { return number(cudaFreeHost(memory)); }

  Code copy(CopyKind kind, void* to, const void* from, std::size_t bytes, Stream stream) override {
    const auto direction = kind == CopyKind::to_device ? cudaMemcpyHostToDevice
                           : kind == CopyKind::to_host ? cudaMemcpyDeviceToHost
                                                       : cudaMemcpyDeviceToDevice;
    return number(cudaMemcpyAsync(to, from, bytes, direction, stream_of(stream)));
  }
  Code fill(void* to, std::uint8_t byte, std::size_t bytes, Stream stream) override {
    return number(cudaMemsetAsync(to, byte, bytes, stream_of(stream)));
  }

  Code create_stream(Stream& stream) override {
    cudaStream_t made = nullptr;
    const Code code = number(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    stream = made;
    return code;
  }
  Code destroy_stream(Stream stream) override { return number(cudaStreamDestroy(stream_of(stream))); }
  Code wait_for(Stream stream) override { return number(cudaStreamSynchronize(stream_of(stream))); }

  Code create_event(Event& event) override {
    cudaEvent_t made = nullptr;
    const Code code = number(cudaEventCreate(&made));
    event = made;
    return code;
  }
  Code destroy_event(Event event) override { return number(cudaEventDestroy(event_of(event))); }
  Code record(Event event, Stream stream) override {
    return number(cudaEventRecord(event_of(event), stream_of(stream)));
  }
  Code let_wait(Stream stream, Event event) override {
    return number(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0));
  }
  Code wait_for_event(Event event) override { return number(cudaEventSynchronize(event_of(event))); }
  Code elapsed_ms(float& elapsed, Event from, Event to) override {
    return number(cudaEventElapsedTime(&elapsed, event_of(from), event_of(to)));
  }

  Code begin_capture(Stream stream) override {
    return number(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal));
  }
  Code end_capture(Stream stream, Graph& graph) override {
    cudaGraph_t captured = nullptr;
    if (const auto error = cudaStreamEndCapture(stream_of(stream), &captured); error != cudaSuccess) {
      return number(error);
    }
    cudaGraphExec_t made = nullptr;
    const Code code = forgotten(cudaGraphInstantiate(&made, captured, 0));
    graph = made;
    const Code destroyed = number(cudaGraphDestroy(captured));
    return code != 0 ? code : destroyed;
  }
  Code launch_graph(Graph graph, Stream stream) override {
    return number(cudaGraphLaunch(graph_of(graph), stream_of(stream)));
  }
  Code destroy_graph(Graph graph) override { return number(cudaGraphExecDestroy(graph_of(graph))); }

  std::string describe(Code code) const override { return text(static_cast<cudaError_t>(code)); }
  std::string describe_device() const override { return name_; }
  bool is_out_of_memory(Code code) const override { return code == number(cudaErrorMemoryAllocation); }
  unsigned resident_blocks() const override { return resident_blocks_; }
  std::size_t free_bytes() const override {
    std::size_t free = 0;
    std::size_t total = 0;
    return cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
  }
  const Launches& launches() const override { return device::launches(); }
  void reuse(void*, std::size_t, std::size_t) override {}

 private:
  // A lack of memory leaves a mark that the next launch would take for its own.
  static Code forgotten(cudaError_t error) {
    if (error == cudaErrorMemoryAllocation) static_cast<void>(cudaGetLastError());
    return number(error);
  }

  std::string name_;
  unsigned resident_blocks_;
};

std::unexpected<Error> missing(std::string_view what) {
  return fail(ErrorCode::bad_input, fmt::format("CUDA: {}; or choose the backend cpu or auto", what));
}
std::unexpected<Error> missing(std::string_view what, cudaError_t error) {
  return missing(fmt::format("{} ({})", what, text(error)));
}

}  // namespace

Result<std::unique_ptr<Driver>> open_device() {
  int count = 0;
  const auto counted = cudaGetDeviceCount(&count);
  if (counted == cudaErrorInsufficientDriver) {
    return missing(
        "there is no NVIDIA driver on this machine, or it is too old: install one for CUDA 13 (580 or later)", counted);
  }
  if (counted == cudaErrorNoDevice || (counted == cudaSuccess && count == 0)) {
    return missing(
        "the NVIDIA driver is there, but this process sees no GPU: look at nvidia-smi, at "
        "CUDA_VISIBLE_DEVICES, and whether a container was given the GPU",
        cudaErrorNoDevice);
  }
  if (counted != cudaSuccess) return missing("the NVIDIA driver does not answer", counted);

  cudaDeviceProp properties{};
  if (const auto error = cudaGetDeviceProperties(&properties, 0); error != cudaSuccess) {
    return missing("the properties of the GPU cannot be read", error);
  }
  if (properties.major * 10 + properties.minor < kLeastCapability) {
    return missing(fmt::format("the GPU {} has compute capability {}.{}; 7.5 or later is needed", properties.name,
                               properties.major, properties.minor));
  }
  if (const auto error = cudaSetDevice(0); error != cudaSuccess) {
    return missing(fmt::format("the GPU {} cannot be used", properties.name), error);
  }
  int blocks = 0;
  const auto code = static_cast<cudaError_t>(device::launches().blocks_per_processor(&blocks));
  if (code != cudaSuccess || blocks < 1) {
    const auto what = fmt::format("the GPU {} (compute capability {}.{}) does not take the kernels of this build",
                                  properties.name, properties.major, properties.minor);
    return code != cudaSuccess ? missing(what, code) : missing(what);
  }
  return std::make_unique<DeviceDriver>(properties.name,
                                        static_cast<unsigned>(blocks * properties.multiProcessorCount));
}

}  // namespace gleaner::cuda
