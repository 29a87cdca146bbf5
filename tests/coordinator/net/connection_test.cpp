// One connection and its uploads: what waits outside, what may take how long, what a device hears meanwhile.

#include <gmock/gmock.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "tests/coordinator/net/world.hpp"

namespace gleaner::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr std::uint32_t kPayload = 200'000;
constexpr std::size_t kRecordBytes = 20'000;  // what a link reads ahead: a TLS record and its frame

// What came in at the sockets and is not folded yet.
std::uint64_t held_bytes(const std::vector<Device>& devices, std::uint64_t before, const FakeOwner& owner) {
  std::uint64_t in = 0;
  for (const auto& device : devices) in += device.connection->counters().bytes_in;
  return in - before - owner.folded_bytes;
}

// All announce at once; the uploads of a few fit.
asio::awaitable<void> many_uploads(NetTest& test, std::uint32_t chunk_bytes) {
  constexpr std::size_t kDevices = 24;
  constexpr std::uint64_t kCredit = 4 * kPayload;
  FakeOwner owner(test.io_, kCredit);
  std::vector<Device> devices;
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < kDevices; ++i) devices.push_back(co_await test.join(owner));
  std::vector<std::uint64_t> joined;
  for (const auto& device : devices) joined.push_back(device.connection->counters().bytes_in);
  for (const auto bytes : joined) before += bytes;
  for (std::size_t i = 0; i < kDevices; ++i) {
    for (std::uint32_t offset = 0; offset < kPayload; offset += chunk_bytes) {
      const std::uint32_t size = std::min(chunk_bytes, kPayload - offset);
      EXPECT_TRUE(devices[i].link->send(chunk(i + 1, kPayload, offset, size)).has_value());
    }
  }
  const auto announced = [&] {
    for (std::size_t i = 0; i < kDevices; ++i) {
      if (devices[i].connection->counters().bytes_in == joined[i]) return false;
    }
    return owner.updates == 4;
  };
  std::uint64_t most = 0;
  const auto watch = [&] { most = std::max(most, held_bytes(devices, before, owner)); };
  while (!announced()) {
    co_await turn(test.io_);
    watch();
  }
  for (std::size_t done = 0; done < kDevices; ++done) {
    while (owner.updates < std::min(done + 4, kDevices)) {
      co_await turn(test.io_);
      watch();
      EXPECT_LE(owner.upload_credit().used_bytes(), kCredit);
    }
    EXPECT_TRUE(owner.fold_one());
  }
  EXPECT_EQ(owner.in_order, kDevices);
  EXPECT_LE(most, kCredit + kDevices * kRecordBytes) << "bytes were read before there was room for them";
  EXPECT_GE(most, kCredit) << "the uploads did not overlap";
  EXPECT_EQ(owner.upload_credit().used_bytes(), 0U);
  for (const auto& device : devices) device.link->close("done");
  co_await owner.tasks().wait();
}
TEST_F(NetTest, UploadsWaitOutsideUntilThereIsRoom) { run(many_uploads(*this, kPayload)); }
TEST_F(NetTest, UploadsInChunksWaitOutsideUntilThereIsRoom) { run(many_uploads(*this, 60'000)); }

// Who holds room goes on whoever waits: else all would wait for each other.
asio::awaitable<void> half_an_upload(NetTest& test) {
  FakeOwner owner(test.io_, kPayload);
  const Device first = co_await test.join(owner), second = co_await test.join(owner);
  EXPECT_TRUE(first.link->send(chunk(1, kPayload, 0, 1000)).has_value());
  while (owner.upload_credit().used_bytes() == 0) co_await turn(test.io_);
  const auto before = second.connection->counters().bytes_in;
  EXPECT_TRUE(second.link->send(chunk(2, kPayload, 0, kPayload)).has_value());
  while (second.connection->counters().bytes_in == before) co_await turn(test.io_);
  EXPECT_TRUE(first.link->send(chunk(1, kPayload, 1000, kPayload - 1000)).has_value());
  while (owner.updates < 1) co_await turn(test.io_);
  EXPECT_LT(second.connection->counters().bytes_in - before, kRecordBytes);
  EXPECT_TRUE(owner.fold_one());
  while (owner.updates < 2) co_await turn(test.io_);
  EXPECT_EQ(owner.in_order, 2U);
  EXPECT_TRUE(owner.fold_one());
  first.link->close("done");
  second.link->close("done");
  co_await owner.tasks().wait();
}
TEST_F(NetTest, AnOpenUploadGoesOnWhileOthersWait) { run(half_an_upload(*this)); }

// The plan closes while its upload waits: the digest is enough, and no room is held.
asio::awaitable<void> plan_closes(NetTest& test) {
  FakeOwner owner(test.io_, kPayload);
  EXPECT_TRUE(co_await owner.upload_credit().take(kPayload, std::make_shared<const bool>(true)));
  const Device device = co_await test.join(owner);
  const auto before = device.connection->counters().bytes_in;
  EXPECT_TRUE(device.link->send(chunk(1, kPayload, 0, kPayload)).has_value());
  while (device.connection->counters().bytes_in == before) co_await turn(test.io_);
  owner.bytes_max = 0;
  owner.upload_credit().give(kPayload);
  while (owner.unread == 0) co_await turn(test.io_);
  EXPECT_EQ(owner.upload_credit().used_bytes(), 0U);
  // The rest of it is passed over.
  EXPECT_TRUE(device.link->send(encode_frame(Heartbeat{})).has_value());
  const auto echo = co_await device.link->read(Sender::coordinator);
  EXPECT_TRUE(echo.has_value()) << error_of(echo);
  device.link->close("done");
  co_await owner.tasks().wait();
}
TEST_F(NetTest, APlanThatClosesMeanwhileIsAnsweredUnread) { run(plan_closes(*this)); }

// What a device says when an upload of it was dropped.
asio::awaitable<void> expect_dropped(FakeOwner& owner, Heard heard) {
  EXPECT_TRUE(heard.message.has_value()) << heard.end;
  const auto* failure = heard.message ? std::get_if<Failure>(&*heard.message) : nullptr;
  EXPECT_NE(failure, nullptr);
  if (failure != nullptr) {
    EXPECT_EQ(failure->code, FailureCode::protocol);
    EXPECT_THAT(failure->text, HasSubstr("made no progress"));
  }
  co_await owner.tasks().wait();
  EXPECT_EQ(owner.upload_credit().used_bytes(), 0U);
  EXPECT_THAT(owner.reasons.at(0), HasSubstr("made no progress"));
}

// A heartbeat for each one that was echoed.
asio::awaitable<Heard> chat(std::shared_ptr<Link> link) {
  for (;;) {
    (void)link->send(encode_frame(Heartbeat{}));
    auto frame = co_await link->read(Sender::coordinator);
    Heard heard;
    if (!frame) {
      heard.end = frame.error().message();
      co_return heard;
    }
    heard.frame = std::move(*frame);
    auto message = decode_body(heard.frame.header, heard.frame.body.view());
    if (message && std::holds_alternative<Heartbeat>(*message)) continue;
    if (message) heard.message = std::move(*message);
    co_return heard;
  }
}

asio::awaitable<void> heartbeats_are_no_progress(NetTest& test) {
  FakeOwner owner(test.io_, kPayload);
  const UploadLimits limits{.pause_max = milliseconds(50)};
  const Device device = co_await test.join(owner, limits);
  EXPECT_TRUE(device.link->send(chunk(1, kPayload, 0, 1000)).has_value());
  while (owner.upload_credit().used_bytes() == 0) co_await turn(test.io_);
  Heard heard = co_await chat(device.link);
  device.link->close("done");
  co_await expect_dropped(owner, std::move(heard));
}
TEST_F(NetTest, HeartbeatsKeepNoUploadOpen) { run(heartbeats_are_no_progress(*this)); }

// A byte now and then: each pause is short, the whole is not.
asio::awaitable<void> small_steps(NetTest& test) {
  FakeOwner owner(test.io_, kPayload);
  const UploadLimits limits{.pause_max = milliseconds(50), .bytes_per_s_min = 1U << 30};
  const Device device = co_await test.join(owner, limits);
  Heard heard;
  std::uint32_t sent = 0;
  for (; sent < kPayload / 2; ++sent) {
    (void)device.link->send(chunk(1, kPayload, sent, 1));
    (void)device.link->send(encode_frame(Heartbeat{}));
    auto frame = co_await device.link->read(Sender::coordinator);
    if (!frame) break;
    heard.frame = std::move(*frame);
    auto message = decode_body(heard.frame.header, heard.frame.body.view());
    if (!message || std::holds_alternative<Heartbeat>(*message)) continue;
    heard.message = std::move(*message);
    break;
  }
  EXPECT_GT(sent, 1U);
  device.link->close("done");
  co_await expect_dropped(owner, std::move(heard));
}
TEST_F(NetTest, AnUploadHasALeastRate) { run(small_steps(*this)); }

asio::awaitable<void> tick(std::shared_ptr<DeviceConnection> connection, milliseconds interval, const bool& stop) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (!stop) {
    timer.expires_after(interval);
    (void)co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    connection->show_life();
  }
}

asio::awaitable<void> upload_all(std::shared_ptr<Link> link, std::uint32_t total) {
  for (std::uint32_t offset = 0; offset < total; offset += kChunkBytesMax) {
    Bytes frame = chunk(1, total, offset, std::min(kChunkBytesMax, total - offset));
    const Status sent = co_await link->send_and_wait(std::move(frame));
    EXPECT_TRUE(sent.has_value()) << error_of(sent);
    if (!sent) co_return;
  }
}

// A device whose upload waits for far longer than its write time-out and its idle bound is not lost.
asio::awaitable<void> patience(NetTest& test) {
  constexpr std::uint32_t kTotal = 16U << 20;
  constexpr std::size_t kHeartbeats = 30;
  LinkLimits limits = test_limits();
  limits.write_timeout = milliseconds(20);
  limits.idle_timeout = milliseconds(1500);
  limits.write_waits_while_heard = true;
  FakeOwner owner(test.io_, kTotal);
  EXPECT_TRUE(co_await owner.upload_credit().take(kTotal, std::make_shared<const bool>(true)));
  const UploadLimits upload_limits;
  const Device device = co_await test.join(owner, upload_limits, limits);
  bool stop = false;
  EXPECT_TRUE(owner.tasks().spawn("tick", tick(device.connection, milliseconds(100), stop)).has_value());
  EXPECT_TRUE(owner.tasks().spawn("upload", upload_all(device.link, kTotal)).has_value());
  for (std::size_t heard = 0; heard < kHeartbeats; ++heard) {
    const auto frame = co_await device.link->read(Sender::coordinator);
    EXPECT_TRUE(frame.has_value()) << error_of(frame);
    if (!frame) break;
  }
  EXPECT_GT(device.link->queued_bytes(), 0U) << "the write never waited: nothing was tested";
  owner.upload_credit().give(kTotal);
  while (owner.updates == 0 && device.link->is_open()) co_await turn(test.io_);
  EXPECT_EQ(owner.in_order, 1U);
  stop = true;
  device.link->close("done");
  owner.fold_one();
  co_await owner.tasks().wait();
}
TEST_F(NetTest, ADeviceThatWaitsHearsThatItIsNotForgotten) { run(patience(*this)); }

// The owner closes it while it waits: it goes at once, not when its turn comes.
asio::awaitable<void> closed_while_waiting(NetTest& test, bool superseded) {
  FakeOwner owner(test.io_, kPayload);
  EXPECT_TRUE(co_await owner.upload_credit().take(kPayload, std::make_shared<const bool>(true)));
  const Device device = co_await test.join(owner), other = co_await test.join(owner);
  const auto before = device.connection->counters().bytes_in;
  EXPECT_TRUE(device.link->send(chunk(1, kPayload, 0, kPayload)).has_value());
  while (device.connection->counters().bytes_in == before) co_await turn(test.io_);
  device.connection->superseded = superseded;
  device.connection->close("the owner says so");
  while (owner.ended.empty()) co_await turn(test.io_);
  EXPECT_EQ(owner.updates, 0U);
  EXPECT_EQ(owner.upload_credit().used_bytes(), kPayload);
  // Nobody stands behind its place.
  owner.upload_credit().give(kPayload);
  EXPECT_TRUE(other.link->send(chunk(2, kPayload, 0, kPayload)).has_value());
  while (owner.updates == 0) co_await turn(test.io_);
  EXPECT_TRUE(owner.fold_one());
  EXPECT_EQ(owner.upload_credit().used_bytes(), 0U);
  device.link->close("done");
  other.link->close("done");
  co_await owner.tasks().wait();
}
TEST_F(NetTest, ClosedWhileItWaits) { run(closed_while_waiting(*this, false)); }
TEST_F(NetTest, SupersededWhileItWaits) { run(closed_while_waiting(*this, true)); }

}  // namespace
}  // namespace gleaner::testing
