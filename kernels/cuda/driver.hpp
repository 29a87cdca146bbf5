#pragma once
// What the host asks of CUDA, one function a call, so that the same host code runs on a GPU and on the emulation. A
// code of 0 is success; describe() says what another one means. Streams, events and graphs are opaque.

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/cuda/launches.hpp"

namespace gleaner::cuda {

enum class CopyKind { to_device, to_host, on_device };

class Driver {
 public:
  using Code = int;
  using Stream = void*;
  using Event = void*;
  using Graph = void*;

  virtual ~Driver() = default;

  virtual Code allocate(std::size_t bytes, void*& memory) = 0;
  virtual Code release(void* memory) = 0;
  virtual Code allocate_pinned(std::size_t bytes, void*& memory) = 0;
  virtual Code release_pinned(void* memory) = 0;

  // Asynchronous: pinned host memory stays untouched until the stream has come past it.
  virtual Code copy(CopyKind kind, void* to, const void* from, std::size_t bytes, Stream stream) = 0;
  virtual Code fill(void* to, std::uint8_t byte, std::size_t bytes, Stream stream) = 0;

  virtual Code create_stream(Stream& stream) = 0;
  virtual Code destroy_stream(Stream stream) = 0;
  virtual Code wait_for(Stream stream) = 0;

  virtual Code create_event(Event& event) = 0;
  virtual Code destroy_event(Event event) = 0;
  virtual Code record(Event event, Stream stream) = 0;
  virtual Code let_wait(Stream stream, Event event) = 0;
  virtual Code wait_for_event(Event event) = 0;
  virtual Code elapsed_ms(float& elapsed, Event from, Event to) = 0;

  // What is started on the stream between the two is not run but kept as a graph, which launch_graph() runs as often as
  // wanted, with the same arguments. In between nothing is allocated and nobody waits. After end_capture() the stream
  // is an ordinary one again, whatever the code.
  virtual Code begin_capture(Stream stream) = 0;
  virtual Code end_capture(Stream stream, Graph& graph) = 0;
  virtual Code launch_graph(Graph graph, Stream stream) = 0;
  virtual Code destroy_graph(Graph graph) = 0;

  virtual std::string describe(Code code) const = 0;
  virtual std::string describe_device() const = 0;
  virtual bool is_out_of_memory(Code code) const = 0;
  virtual unsigned resident_blocks() const = 0;  // that the device runs at a time
  virtual std::size_t free_bytes() const = 0;
  virtual const Launches& launches() const = 0;

  // A block of memory that was allocated before holds something else from now on, in its first used bytes.
  virtual void reuse(void* memory, std::size_t used, std::size_t size) = 0;
};

}  // namespace gleaner::cuda
