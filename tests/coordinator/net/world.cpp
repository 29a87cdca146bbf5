#include "tests/coordinator/net/world.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "common/hash.hpp"

namespace gleaner::testing {

void FakeOwner::greeted(const std::shared_ptr<DeviceConnection>& connection, const Hello&) {
  connection->greeted = true;
  connection->send(Welcome{});
}

void FakeOwner::update(DeviceConnection&, const Update& meta, std::shared_ptr<const Bytes> payload, Duration) {
  if (!payload) {
    ++unread;
    return;
  }
  ++updates;
  in_order += *payload == payload_of(meta.total_bytes) ? 1 : 0;
  payloads.push_back(std::move(payload));
}

void FakeOwner::closed(const std::shared_ptr<DeviceConnection>& connection, const std::string& reason) {
  ended.insert(connection.get());
  reasons.push_back(reason);
}

bool FakeOwner::fold_one() {
  if (payloads.empty()) return false;
  const std::uint64_t bytes = payloads.front()->size();
  payloads.pop_front();
  folded_bytes += bytes;
  upload_credit_.give(bytes);
  return true;
}

asio::awaitable<Device> NetTest::join(FakeOwner& owner, UploadLimits upload_limits, LinkLimits device_limits) {
  Pair pair = co_await open(server_, client_, test_limits(), device_limits);
  EXPECT_TRUE(pair.server.has_value()) << error_of(pair.server);
  EXPECT_TRUE(pair.client.has_value()) << error_of(pair.client);
  Device device{.link = *pair.client, .connection = {}};
  device.connection = std::make_shared<DeviceConnection>(*pair.server, owner, upload_limits);
  auto task = device.connection->run();
  EXPECT_TRUE(owner.tasks().spawn("connection", std::move(task)).has_value());
  EXPECT_TRUE(device.link->send(encode_frame(Hello{.software = "test"})).has_value());
  const auto welcome = co_await device.link->read(Sender::coordinator);
  EXPECT_TRUE(welcome.has_value()) << error_of(welcome);
  co_return device;
}

Bytes payload_of(std::size_t size_bytes) {
  Bytes bytes(size_bytes);
  for (std::size_t i = 0; i < size_bytes; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 256);
  return bytes;
}

Bytes chunk(std::uint64_t plan, std::uint32_t total, std::uint32_t offset, std::uint32_t size_bytes) {
  const Bytes payload = payload_of(total);
  return encode_frame(Update{.plan = {plan},
                             .digest = digest_of(payload),
                             .samples = 1,
                             .total_bytes = total,
                             .offset = offset,
                             .bytes = ByteView(payload).subspan(offset, size_bytes)});
}

asio::awaitable<Heard> hear(std::shared_ptr<Link> link) {
  Heard heard;
  for (;;) {
    auto frame = co_await link->read(Sender::coordinator);
    if (!frame) {
      heard.end = frame.error().message();
      co_return heard;
    }
    heard.frame = std::move(*frame);
    auto message = decode_body(heard.frame.header, heard.frame.body.view());
    EXPECT_TRUE(message.has_value()) << error_of(message);
    if (!message) co_return heard;
    if (!std::holds_alternative<Heartbeat>(*message)) {
      heard.message = std::move(*message);
      co_return heard;
    }
    ++heard.heartbeats;
  }
}

asio::awaitable<void> turn(asio::io_context& io) { co_await asio::post(io, asio::use_awaitable); }

}  // namespace gleaner::testing
