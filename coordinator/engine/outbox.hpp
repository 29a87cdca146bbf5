#pragma once
// Where a run's messages to devices go, and what crossed the sockets. Loop thread only.

#include <cstdint>
#include <memory>

#include "common/bytes.hpp"
#include "common/ids.hpp"
#include "protocol/messages.hpp"

namespace gleaner {

struct SocketBytes {
  std::uint64_t up_bytes = 0;    // from devices
  std::uint64_t down_bytes = 0;  // to devices
};

class Outbox {
 public:
  virtual ~Outbox() = default;
  // To a device that is not connected: dropped; it states what it holds when it comes back.
  virtual void send(const DeviceName& device, const Message& message) = 0;
  // A plan and the bytes of its sync: the head inside the plan, the rest in chunks, with back-pressure.
  virtual void send_plan(const DeviceName& device, const Plan& plan, std::shared_ptr<const Bytes> sync) = 0;
  virtual void send_to_all(const Message& message) = 0;
  // That many bytes of a payload are no longer held.
  virtual void payload_released(std::uint64_t bytes) = 0;
  virtual SocketBytes socket_bytes() const = 0;  // since this process began, closed connections included
};

}  // namespace gleaner
