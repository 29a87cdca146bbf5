#pragma once
// Connections of devices over real TLS links, with an owner that notes what it is told and keeps payloads until a test
// folds them.

#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "coordinator/net/connection.hpp"
#include "tests/protocol/link/world.hpp"

namespace gleaner::testing {

class FakeOwner final : public ConnectionOwner {
 public:
  FakeOwner(asio::io_context& io, std::uint64_t credit_bytes)
      : upload_credit_(credit_bytes), sync_credit_(1U << 20), tasks_(io.get_executor(), 10'000) {}

  void greeted(const std::shared_ptr<DeviceConnection>& connection, const Hello& hello) override;
  void accepted(DeviceConnection&, const Accept&) override {}
  void declined(DeviceConnection&, const Decline&) override {}
  std::uint64_t payload_bytes_max(const DeviceConnection&, PlanId) override { return bytes_max; }
  void update(DeviceConnection&, const Update& meta, std::shared_ptr<const Bytes> payload, Duration) override;
  void refused(DeviceConnection&, PlanId, RefusalCode code, const std::string&) override { refusals.push_back(code); }
  void skip(DeviceConnection&, const Skip&) override {}
  void downloaded(DeviceConnection&, std::uint64_t, Duration) override {}
  void closed(const std::shared_ptr<DeviceConnection>& connection, const std::string& reason) override;
  TaskGroup& tasks() override { return tasks_; }
  Credit& upload_credit() override { return upload_credit_; }
  Credit& sync_credit() override { return sync_credit_; }
  const Clock& clock() override { return system_clock(); }

  bool fold_one();  // false: there was none

  std::uint64_t bytes_max = 1U << 30;  // of any plan
  std::deque<std::shared_ptr<const Bytes>> payloads;
  std::size_t updates = 0;   // with a payload
  std::size_t unread = 0;    // answered by their digest alone
  std::size_t in_order = 0;  // payloads that were the bytes of payload_of()
  std::uint64_t folded_bytes = 0;
  std::vector<RefusalCode> refusals;
  std::multiset<const DeviceConnection*> ended;
  std::vector<std::string> reasons;

 private:
  Credit upload_credit_;
  Credit sync_credit_;
  TaskGroup tasks_;
};

// A device's end and the coordinator's connection, which runs in the owner's tasks.
struct Device {
  std::shared_ptr<Link> link;
  std::shared_ptr<DeviceConnection> connection;
};

class NetTest : public LinkTest {
 public:
  // *this and the owner outlive the coroutine. The device has said hello and was welcomed.
  asio::awaitable<Device> join(FakeOwner& owner, UploadLimits upload_limits = {},
                               LinkLimits device_limits = test_limits());

  TlsContext server_ = pki_.server();
  TlsContext client_ = pki_.client();
};

Bytes payload_of(std::size_t size_bytes);
// The chunk of payload_of(total) that begins at offset, as a frame.
Bytes chunk(std::uint64_t plan, std::uint32_t total, std::uint32_t offset, std::uint32_t size_bytes);
// The next message that is no heartbeat, which are counted; nothing when the link ended, with the reason in `end`.
struct Heard {
  InFrame frame;  // what the message's views point into
  std::optional<Message> message;
  std::string end;
  std::size_t heartbeats = 0;
};
asio::awaitable<Heard> hear(std::shared_ptr<Link> link);
asio::awaitable<void> turn(asio::io_context& io);  // everybody else who is ready comes first

}  // namespace gleaner::testing
