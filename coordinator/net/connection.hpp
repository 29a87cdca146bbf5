#pragma once
// One device's connection: reads its messages, assembles its uploads, sends what the run has for it. Loop thread only.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

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
  // 0: the device has no such open plan.
  virtual std::uint64_t payload_bytes_max(const DeviceConnection& connection, PlanId plan) = 0;
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

// What an upload must keep to while it holds a share of the bytes in flight. Within a chunk the link's limits hold.
struct UploadLimits {
  Duration pause_max = std::chrono::seconds(30);  // between two chunks, whatever else is said meanwhile
  std::uint32_t bytes_per_s_min = 4096;           // over the whole upload, one pause left aside
};

class DeviceConnection : public std::enable_shared_from_this<DeviceConnection> {
 public:
  DeviceConnection(std::shared_ptr<Link> link, ConnectionOwner& owner, UploadLimits limits = {});

  boost::asio::awaitable<void> run();  // until the connection ends
  void send(const Message& message);
  void send_plan(const Plan& plan, std::shared_ptr<const Bytes> sync);
  void close(const std::string& reason);
  // Called once in every heartbeat interval: says something when nothing was said since the last call. While a device's
  // own heartbeats are not read, because they stand behind an upload or wait for memory with it, it hears us all the
  // same.
  void show_life();

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
    Instant began;        // when its bytes might come
    bool waited = false;  // for that
  };

  // All say whether the conversation goes on.
  boost::asio::awaitable<bool> receive_message(FrameHeader header);
  boost::asio::awaitable<bool> receive_update(FrameHeader header);
  boost::asio::awaitable<bool> begin_upload(Update update);
  boost::asio::awaitable<bool> receive_chunk(std::size_t size_bytes);
  boost::asio::awaitable<bool> pass_over(std::size_t size_bytes);
  bool receive(const Message& message);
  void answer_unread(const Update& update);
  void finish_upload();
  void drop_upload();
  void await_chunk();
  void upload_stalled();
  bool read_failed(const Error& error);
  void end();
  bool protocol_error(const std::string& what);
  static boost::asio::awaitable<void> send_sync(std::shared_ptr<DeviceConnection> self, Plan plan,
                                                std::shared_ptr<const Bytes> sync, std::uint64_t turn);

  std::shared_ptr<Link> link_;
  ConnectionOwner& owner_;
  UploadLimits limits_;
  Instant since_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::optional<Upload> upload_;
  std::unique_ptr<boost::asio::steady_timer> pause_;  // while an upload of several chunks is open
  PlanId ignored_plan_;  // refused or answered before its bytes came: the rest of it is passed over
  std::string close_reason_;
  std::optional<Instant> sync_due_;  // of the chunk that is on its way
  std::uint64_t plans_ = 0;          // a plan that waits for its turn is dropped when a newer word overtakes it
  bool said_something_ = false;      // since show_life() was last called
};

}  // namespace gleaner
