#include "coordinator/net/connection.hpp"

#include <fmt/format.h>

#include "common/hash.hpp"
#include "common/log.hpp"

namespace gleaner {

namespace asio = boost::asio;

DeviceConnection::DeviceConnection(std::shared_ptr<Link> link, ConnectionOwner& owner)
    : link_(std::move(link)), owner_(owner), since_(owner.clock().now()) {}

asio::awaitable<void> DeviceConnection::run() {
  const auto self = shared_from_this();
  for (;;) {
    auto frame = co_await link_->read(Sender::device);
    if (!frame) {
      if (close_reason_.empty()) close_reason_ = frame.error().message();
      break;
    }
    auto message = decode_body(frame->header, frame->body.view());
    if (!message) {
      protocol_error(message.error().message());
      break;
    }
    const bool go_on = co_await receive(*message);
    if (!go_on) break;
  }
  *alive_ = false;
  drop_upload();
  link_->close(close_reason_);
  owner_.upload_credit().wake_all();
  owner_.sync_credit().wake_all();
  owner_.closed(self, close_reason_);
}

asio::awaitable<bool> DeviceConnection::receive(const Message& message) {
  if (const auto* hello = std::get_if<Hello>(&message)) {
    if (greeted) co_return protocol_error("a second hello");
    owner_.greeted(shared_from_this(), *hello);
    co_return greeted;
  }
  if (!greeted) co_return protocol_error("a message before the hello");
  if (superseded) co_return false;
  if (const auto* accept = std::get_if<Accept>(&message)) {
    drop_upload();
    ignored_plan_ = {};
    owner_.accepted(*this, *accept);
  } else if (const auto* decline = std::get_if<Decline>(&message)) {
    owner_.declined(*this, *decline);
  } else if (const auto* update = std::get_if<Update>(&message)) {
    const bool go_on = co_await receive_update(*update);
    co_return go_on;
  } else if (const auto* skip = std::get_if<Skip>(&message)) {
    owner_.skip(*this, *skip);
  } else if (std::holds_alternative<Heartbeat>(message)) {
    send(Heartbeat{});
  } else {
    co_return protocol_error("a message that only the coordinator sends");
  }
  co_return *alive_;
}

asio::awaitable<bool> DeviceConnection::receive_update(const Update& update) {
  if (update.plan == ignored_plan_) co_return true;
  if (update.offset == 0) {
    const bool go_on = co_await begin_upload(update);
    if (!go_on || !upload_) co_return go_on;
  }
  if (!upload_ || upload_->meta.plan != update.plan || upload_->meta.digest != update.digest ||
      upload_->bytes.size() != update.offset || upload_->meta.total_bytes != update.total_bytes) {
    co_return protocol_error(
        fmt::format("a chunk of an update at offset {} that does not continue the one before", update.offset));
  }
  upload_->bytes.insert(upload_->bytes.end(), update.bytes.begin(), update.bytes.end());
  if (upload_->bytes.size() == update.total_bytes) finish_upload();
  co_return true;
}

asio::awaitable<bool> DeviceConnection::begin_upload(const Update& update) {
  drop_upload();
  ignored_plan_ = {};
  const std::uint64_t bytes_max = owner_.payload_bytes_max(update.plan);
  if (bytes_max == 0) {
    // Closed or unknown: the digest alone is enough to answer.
    ignored_plan_ = update.plan;
    Update meta = update;
    meta.bytes = {};
    owner_.update(*this, meta, nullptr, {});
    co_return true;
  }
  if (update.total_bytes > bytes_max) {
    ignored_plan_ = update.plan;
    owner_.refused(*this, update.plan, RefusalCode::too_many_entries,
                   fmt::format("{} bytes, the plan's grant needs at most {}", update.total_bytes, bytes_max));
    co_return true;
  }
  // A named copy: the frame's view does not outlive the wait.
  Upload upload{.meta = update, .bytes = {}, .credit = update.total_bytes, .began = owner_.clock().now()};
  upload.meta.bytes = {};
  const bool taken = co_await owner_.upload_credit().take(upload.credit, alive_);
  if (!taken) co_return false;
  upload.bytes.reserve(update.bytes.size());
  upload_ = std::move(upload);
  co_return true;
}

void DeviceConnection::finish_upload() {
  Upload upload = std::move(*upload_);
  upload_.reset();
  if (digest_of(upload.bytes) != upload.meta.digest) {
    owner_.upload_credit().give(upload.credit);
    owner_.refused(*this, upload.meta.plan, RefusalCode::wrong_digest, "the bytes do not match their digest");
    return;
  }
  const Duration transfer = owner_.clock().now() - upload.began;
  owner_.update(*this, upload.meta, std::make_shared<const Bytes>(std::move(upload.bytes)), transfer);
}

void DeviceConnection::drop_upload() {
  if (!upload_) return;
  owner_.upload_credit().give(upload_->credit);
  upload_.reset();
}

bool DeviceConnection::protocol_error(const std::string& what) {
  close_reason_ = "the device broke the protocol: " + what;
  send(Failure{FailureCode::protocol, 10'000, what});
  return false;
}

void DeviceConnection::send(const Message& message) {
  if (!*alive_) return;
  const Status queued = link_->send(encode_frame(message));
  if (!queued) close(queued.error().message());
}

void DeviceConnection::send_plan(const Plan& plan, std::shared_ptr<const Bytes> sync) {
  Plan first = plan;
  first.sync_bytes = sync ? sync->size() : 0;
  if (first.sync_bytes <= kChunkBytesMax) {
    if (sync) first.sync_head = *sync;
    send(first);
    return;
  }
  auto task = send_sync(shared_from_this(), first, std::move(sync));
  (void)owner_.tasks().spawn("sync", std::move(task));
}

asio::awaitable<void> DeviceConnection::send_sync(std::shared_ptr<DeviceConnection> self, Plan plan,
                                                  std::shared_ptr<const Bytes> sync) {
  // Many devices may want a whole model at once: each holds at most one chunk, and the chunks together are bounded.
  auto& credit = self->owner_.sync_credit();
  const auto alive = self->alive_;
  const Instant began = self->owner_.clock().now();
  for (std::size_t offset = 0; offset < sync->size();) {
    const std::size_t size = std::min<std::size_t>(kChunkBytesMax, sync->size() - offset);
    const bool taken = co_await credit.take(size, alive);
    if (!taken) co_return;
    Bytes frame;
    if (offset == 0) {
      plan.sync_head = ByteView(*sync).first(size);
      frame = encode_frame(plan);
    } else {
      SyncChunk chunk{.plan = plan.id, .offset = offset, .bytes = ByteView(*sync).subspan(offset, size)};
      frame = encode_frame(chunk);
    }
    const Status sent = co_await self->link_->send_and_wait(std::move(frame));
    credit.give(size);
    if (!sent) {
      self->close(sent.error().message());
      co_return;
    }
    offset += size;
  }
  self->owner_.downloaded(*self, sync->size(), self->owner_.clock().now() - began);
}

void DeviceConnection::close(const std::string& reason) {
  if (close_reason_.empty()) close_reason_ = reason;
  link_->close(reason);
}

}  // namespace gleaner
