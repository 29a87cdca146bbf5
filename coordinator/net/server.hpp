#pragma once
// The devices' side of a coordinator: who is connected, who may be, and what they are told. One certificate, one
// connection: the newest Hello wins. Loop thread only.

#include <boost/asio/io_context.hpp>

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include "coordinator/config.hpp"
#include "coordinator/engine/outbox.hpp"
#include "coordinator/engine/run_engine.hpp"
#include "coordinator/net/connection.hpp"
#include "coordinator/net/credit.hpp"
#include "protocol/link/acceptor.hpp"
#include "protocol/link/change_log.hpp"
#include "protocol/link/link.hpp"
#include "protocol/link/task_group.hpp"

namespace gleaner {

// Serials and device names that may not connect, from the configured file and from `gleaner devices revoke`.
struct DenyList {
  std::set<std::string> names;
  std::set<std::string> serials;
  bool contains(const PeerIdentity& peer) const { return names.contains(peer.name) || serials.contains(peer.serial); }
};
Result<DenyList> load_deny_list(const std::string& path);

struct ConnectedDevice {
  std::string address;
  std::string serial;
  Instant since;
  std::uint32_t samples = 0;
  std::uint32_t flaps = 0;
  bool quarantined = false;
  std::string declined;        // its newest reason for not working, until it works
  std::uint64_t up_bytes = 0;  // ever
  std::uint64_t down_bytes = 0;
};

class Server final : public Outbox, public ConnectionOwner {
 public:
  struct Hooks {
    std::function<RunEngine*()> active_run;                 // null: none
    std::function<void(const DeviceRow&)> remember_device;  // stored when there is time
  };

  Server(boost::asio::io_context& io, const CoordinatorConfig& config, const Clock& clock, Hooks hooks);

  void recall(std::vector<DeviceRow> devices);          // what the database knows of them, before listen()
  Result<std::uint16_t> listen();                       // returns the port
  Status reload(const std::set<std::string>& revoked);  // certificates and deny list; new connections use them
  void revoke(const DeviceName& device, bool revoked);
  bool knows(const DeviceName& device) const { return members_.contains(device); }  // has ever connected
  void offer_active_run();                                                          // to everybody connected
  void drain(Duration retry_after);                                                 // says goodbye and stops listening
  std::map<DeviceName, ConnectedDevice> connected() const;
  const std::optional<TlsContext>& tls() const { return tls_; }  // none before the first reload()
  // Of an operator too, by the certificate's serial; the names on the list are of devices.
  bool is_denied(const std::string& serial) const { return deny_list_.serials.contains(serial); }
  bool is_revoked(const DeviceName& device) const { return revoked_.contains(device.value); }
  std::size_t connections() const { return open_connections_; }
  std::uint64_t inflight_bytes() const { return upload_credit_.used_bytes(); }
  const LinkTotals& totals() const { return *totals_; }

  // Outbox.
  void send(const DeviceName& device, const Message& message) override;
  void send_plan(const DeviceName& device, const Plan& plan, std::shared_ptr<const Bytes> sync) override;
  void send_to_all(const Message& message) override;
  void payload_released(std::uint64_t bytes) override { upload_credit_.give(bytes); }
  SocketBytes socket_bytes() const override;

  // ConnectionOwner.
  void greeted(const std::shared_ptr<DeviceConnection>& connection, const Hello& hello) override;
  void accepted(DeviceConnection& connection, const Accept& accept) override;
  void declined(DeviceConnection& connection, const Decline& decline) override;
  std::uint64_t payload_bytes_max(const DeviceConnection& connection, PlanId plan) override;
  void update(DeviceConnection& connection, const Update& meta, std::shared_ptr<const Bytes> payload,
              Duration transfer) override;
  void refused(DeviceConnection& connection, PlanId plan, RefusalCode code, const std::string& detail) override;
  void skip(DeviceConnection& connection, const Skip& skip) override;
  void downloaded(DeviceConnection& connection, std::uint64_t bytes, Duration transfer) override;
  void closed(const std::shared_ptr<DeviceConnection>& connection, const std::string& reason) override;
  TaskGroup& tasks() override { return tasks_; }
  Credit& upload_credit() override { return upload_credit_; }
  Credit& sync_credit() override { return sync_credit_; }
  const Clock& clock() override { return clock_; }

 private:
  struct Member {
    std::shared_ptr<DeviceConnection> connection;  // null: gone
    std::deque<Instant> arrivals;                  // of the last minutes
    Instant quarantined_until;
    std::uint32_t samples = 0;
    bool takes_part = false;  // said so on this connection
    std::string declined;
    DeviceRow row;  // as stored; its bytes are of connections that are gone
  };

  boost::asio::awaitable<void> accept_all();
  boost::asio::awaitable<void> serve(boost::asio::ip::tcp::socket socket);
  boost::asio::awaitable<void> check_certificates();
  boost::asio::awaitable<void> show_life();
  void take_counters(const DeviceConnection& connection);
  void works_again(const DeviceConnection& connection);
  void remember(Member& member);
  bool admit(const std::shared_ptr<DeviceConnection>& connection, const Hello& hello, Member& member);
  void turn_away(const std::shared_ptr<DeviceConnection>& connection, FailureCode code, Duration retry_after,
                 const std::string& text);

  boost::asio::io_context& io_;
  const CoordinatorConfig& config_;
  const Clock& clock_;
  Hooks hooks_;
  std::optional<TlsContext> tls_;
  DenyList deny_list_;
  std::set<std::string> revoked_;
  Credit upload_credit_;
  Credit sync_credit_;
  TaskGroup tasks_;
  std::unique_ptr<Acceptor> acceptor_;
  std::map<DeviceName, Member> members_;
  std::set<std::shared_ptr<DeviceConnection>> open_;
  std::size_t open_connections_ = 0;
  std::shared_ptr<LinkTotals> totals_ = std::make_shared<LinkTotals>();  // links outlive the server
  ChangeLog trouble_;
  ChangeLog full_log_;
  bool draining_ = false;
};

}  // namespace gleaner
