#pragma once
// One device's connection: reads its messages, assembles its uploads, sends what the run has for it. Loop thread only.

#include <boost/asio/awaitable.hpp>

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "common/clock.hpp"
#include "coordinator/engine/outbox.hpp"
#include "coordinator/net/credit.hpp"
#include "protocol/link/link.hpp"
#include "protocol/link/task_group.hpp"
#include "protocol/messages.hpp"

namespace gleaner {

class DeviceConnection;

// What a connection needs of the server around it.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  virtual void greeted(const std::shared_ptr<DeviceConnection>& connection,
                       const Hello& hello) = 0;  // answer and register it
  virtual void accepted(DeviceConnection& connection, const Accept& accept) = 0;
  virtual void declined(DeviceConnection& connection, const Decline& decline) = 0;
  virtual std::uint64_t payload_bytes_max(PlanId plan) = 0;  // 0: the plan is not open
  virtual void update(DeviceConnection& connection, const Update& meta, std::shared_ptr<const Bytes> payload,
                      Duration transfer) = 0;
  virtual void refused(DeviceConnection& connection, PlanId plan, RefusalCode code, const std::string& detail) = 0;
  virtual void skip(DeviceConnection& connection, const Skip& skip) = 0;
  virtual void downloaded(DeviceConnection& connection, std::uint64_t bytes, Duration transfer) = 0;
  virtual void closed(const std::shared_ptr<DeviceConnection>& connection, const std::string& reason) = 0;
  virtual TaskGroup& tasks() = 0;
  virtual Credit& upload_credit() = 0;
  virtual Credit& sync_credit() = 0;
  virtual const Clock& clock() = 0;
};

class DeviceConnection : public std::enable_shared_from_this<DeviceConnection> {
 public:
  DeviceConnection(std::shared_ptr<Link> link, ConnectionOwner& owner);

  boost::asio::awaitable<void> run();  // until the connection ends
  void send(const Message& message);
  void send_plan(const Plan& plan, std::shared_ptr<const Bytes> sync);
  void close(const std::string& reason);

  DeviceName device() const { return {link_->peer().name}; }
  const PeerIdentity& peer() const { return link_->peer(); }
  const std::string& address() const { return link_->address(); }
  LinkCounters counters() const { return link_->counters(); }
  void set_idle_timeout(Duration timeout) {
    link_->set_idle_timeout(std::chrono::duration_cast<std::chrono::milliseconds>(timeout));
  }
  Instant since() const { return since_; }

  bool greeted = false;  // set by the owner
  bool superseded = false;

 private:
  struct Upload {
    Update meta;  // its view is not used
    Bytes bytes;
    std::uint64_t credit = 0;
    Instant began;
  };

  boost::asio::awaitable<bool> receive(const Message& message);
  boost::asio::awaitable<bool> receive_update(const Update& update);
  boost::asio::awaitable<bool> begin_upload(const Update& update);
  void finish_upload();
  void drop_upload();
  bool protocol_error(const std::string& what);
  static boost::asio::awaitable<void> send_sync(std::shared_ptr<DeviceConnection> self, Plan plan,
                                                std::shared_ptr<const Bytes> sync);

  std::shared_ptr<Link> link_;
  ConnectionOwner& owner_;
  Instant since_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::optional<Upload> upload_;
  PlanId ignored_plan_;  // refused or answered before its bytes came: the rest of it is passed over
  std::string close_reason_;
};

}  // namespace gleaner
