#include "coordinator/net/connection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/hash.hpp"
#include "common/log.hpp"

namespace gleaner {

namespace asio = boost::asio;

namespace {
constexpr std::size_t kScratchBytes = 4096;
}

DeviceConnection::DeviceConnection(std::shared_ptr<Link> link, ConnectionOwner& owner, UploadLimits limits)
    : link_(std::move(link)), owner_(owner), limits_(limits), since_(owner.clock().now()) {}

asio::awaitable<void> DeviceConnection::run() {
  const auto self = shared_from_this();
  try {
    for (bool go_on = true; go_on;) {
      const auto header = co_await link_->read_header(Sender::device);
      if (!header) {
        go_on = read_failed(header.error());
      } else if (is_update(*header)) {
        go_on = co_await receive_update(*header);
      } else {
        go_on = co_await receive_message(*header);
      }
    }
  } catch (...) {
    end();  // out of memory, or cancelled: what it held goes back all the same
    throw;
  }
  end();
}

void DeviceConnection::end() {
  close(close_reason_);
  drop_upload();
  owner_.closed(shared_from_this(), close_reason_);
}

bool DeviceConnection::read_failed(const Error& error) {
  if (error.code() == ErrorCode::peer_fault) return protocol_error(error.message());
  if (close_reason_.empty()) close_reason_ = error.message();
  return false;
}

asio::awaitable<bool> DeviceConnection::receive_message(FrameHeader header) {
  AlignedBuffer body(header.body_bytes);
  const Status status = co_await link_->read_part(body.bytes());
  if (!status) co_return read_failed(status.error());
  const auto message = decode_body(header, body.view());
  if (!message) co_return protocol_error(message.error().message());
  co_return receive(*message);
}

bool DeviceConnection::receive(const Message& message) {
  if (!*alive_ || superseded) return false;
  if (const auto* hello = std::get_if<Hello>(&message)) {
    if (greeted) return protocol_error("a second hello");
    owner_.greeted(shared_from_this(), *hello);
    return greeted;
  }
  if (!greeted) return protocol_error("a message before the hello");
  if (const auto* accept = std::get_if<Accept>(&message)) {
    drop_upload();
    ignored_plan_ = {};
    owner_.accepted(*this, *accept);
  } else if (const auto* decline = std::get_if<Decline>(&message)) {
    owner_.declined(*this, *decline);
  } else if (const auto* skip = std::get_if<Skip>(&message)) {
    owner_.skip(*this, *skip);
  } else if (std::holds_alternative<Heartbeat>(message)) {
    send(Heartbeat{});
  } else {
    return protocol_error("a message that only the coordinator sends");
  }
  return *alive_;
}

// The head says how much memory the whole upload needs: none of its bytes are read before that is there.
asio::awaitable<bool> DeviceConnection::receive_update(FrameHeader header) {
  if (!greeted) co_return protocol_error("a message before the hello");
  if (!*alive_ || superseded) co_return false;
  std::array<std::byte, kUpdateHeadBytes> head{};
  const Status status = co_await link_->read_part(head);
  if (!status) co_return read_failed(status.error());
  const auto update = decode_update_head(header, head);
  if (!update) co_return protocol_error(update.error().message());
  if (update->offset == 0) {
    const bool go_on = co_await begin_upload(*update);
    if (!go_on) co_return false;
  }
  const std::size_t size = header.body_bytes - kUpdateHeadBytes;
  if (update->plan == ignored_plan_) {
    const bool go_on = co_await pass_over(size);
    co_return go_on;
  }
  if (!upload_ || upload_->meta.plan != update->plan || upload_->meta.digest != update->digest ||
      upload_->bytes.size() != update->offset || upload_->meta.total_bytes != update->total_bytes) {
    co_return protocol_error(
        fmt::format("a chunk of an update at offset {} that does not continue the one before", update->offset));
  }
  const bool go_on = co_await receive_chunk(size);
  co_return go_on;
}

asio::awaitable<bool> DeviceConnection::begin_upload(Update update) {
  drop_upload();
  ignored_plan_ = {};
  const std::uint64_t bytes_max = owner_.payload_bytes_max(*this, update.plan);
  if (bytes_max == 0) {
    answer_unread(update);
    co_return *alive_;
  }
  if (update.total_bytes > bytes_max) {
    ignored_plan_ = update.plan;
    owner_.refused(*this, update.plan, RefusalCode::too_many_entries,
                   fmt::format("{} bytes, the plan's grant needs at most {}", update.total_bytes, bytes_max));
    co_return *alive_;
  }
  Credit& credit = owner_.upload_credit();
  const bool waited = !credit.has_room(update.total_bytes);
  const bool taken = co_await credit.take(update.total_bytes, alive_);
  if (!taken) co_return false;
  if (waited && owner_.payload_bytes_max(*this, update.plan) == 0) {
    credit.give(update.total_bytes);
    answer_unread(update);
    co_return *alive_;
  }
  upload_.emplace(Upload{
      .meta = update, .bytes = {}, .credit = update.total_bytes, .began = owner_.clock().now(), .waited = waited});
  upload_->bytes.reserve(update.total_bytes);
  co_return true;
}

// The plan is closed or unknown: the digest alone is enough to answer.
void DeviceConnection::answer_unread(const Update& update) {
  ignored_plan_ = update.plan;
  owner_.update(*this, update, nullptr, {});
}

asio::awaitable<bool> DeviceConnection::receive_chunk(std::size_t size_bytes) {
  if (pause_) pause_->expires_at(asio::steady_timer::time_point::max());
  Bytes& bytes = upload_->bytes;
  const std::size_t offset = bytes.size();
  bytes.resize(offset + size_bytes);
  const Status status = co_await link_->read_part(std::span(bytes).subspan(offset));
  if (!status) co_return read_failed(status.error());
  if (bytes.size() == upload_->meta.total_bytes) {
    finish_upload();
  } else {
    await_chunk();
  }
  co_return *alive_;
}

asio::awaitable<bool> DeviceConnection::pass_over(std::size_t size_bytes) {
  std::array<std::byte, kScratchBytes> scratch;
  while (size_bytes > 0) {
    const std::size_t part = std::min(size_bytes, scratch.size());
    const Status status = co_await link_->read_part(std::span(scratch).first(part));
    if (!status) co_return read_failed(status.error());
    size_bytes -= part;
  }
  co_return *alive_;
}

// Until the next chunk begins.
void DeviceConnection::await_chunk() {
  if (!pause_) pause_ = std::make_unique<asio::steady_timer>(link_->executor());
  const auto received = static_cast<double>(upload_->bytes.size());
  const Duration allowed = limits_.pause_max + from_seconds(received / limits_.bytes_per_s_min);
  const Duration left = allowed - (owner_.clock().now() - upload_->began);
  pause_->expires_after(std::min(left, limits_.pause_max));
  pause_->async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (error || !self || !self->pause_) return;
    // Moved on since this was on its way.
    if (self->pause_->expiry() > asio::steady_timer::clock_type::now()) return;
    self->upload_stalled();
  });
}

void DeviceConnection::upload_stalled() {
  const std::string what = fmt::format(
      "an update of {} bytes made no progress after {}: at least {} bytes a second are "
      "needed, and the next ones within {:.0f} s",
      upload_->meta.total_bytes, upload_->bytes.size(), limits_.bytes_per_s_min, to_seconds(limits_.pause_max));
  protocol_error(what);
  close(close_reason_);
}

void DeviceConnection::finish_upload() {
  Upload upload = std::move(*upload_);
  upload_.reset();
  pause_.reset();
  if (digest_of(upload.bytes) != upload.meta.digest) {
    owner_.upload_credit().give(upload.credit);
    owner_.refused(*this, upload.meta.plan, RefusalCode::wrong_digest, "the bytes do not match their digest");
    return;
  }
  // What lay in the sockets' buffers while it waited says nothing about the line.
  const bool says_nothing = upload.waited && upload.meta.total_bytes <= kChunkBytesMax;
  const Duration transfer = says_nothing ? Duration{} : owner_.clock().now() - upload.began;
  owner_.update(*this, upload.meta, std::make_shared<const Bytes>(std::move(upload.bytes)), transfer);
}

void DeviceConnection::drop_upload() {
  if (!upload_) return;
  owner_.upload_credit().give(upload_->credit);
  upload_.reset();
  pause_.reset();
}

bool DeviceConnection::protocol_error(const std::string& what) {
  close_reason_ = "the device broke the protocol: " + what;
  send(Failure{FailureCode::protocol, 10'000, what});
  return false;
}

void DeviceConnection::send(const Message& message) {
  if (!*alive_) return;
  said_something_ = true;
  // A plan that still waits for its turn is of a run that ended or begins anew.
  if (std::holds_alternative<RunEnded>(message) || std::holds_alternative<Offer>(message)) ++plans_;
  const Status queued = link_->send(encode_frame(message));
  if (!queued) close(queued.error().message());
}

namespace {

// A plan with this much beside it goes at once; one with more waits for its turn.
constexpr std::size_t kSyncAtOnceMax = 4096;
// Small, so that many devices are served in turn.
constexpr std::size_t kSyncChunkBytes = 256U << 10;
// Who reads a chunk more slowly than this keeps memory from the others.
constexpr Duration kSyncPatience = std::chrono::seconds(30);
constexpr std::size_t kSyncBytesPerSecondMin = 4096;

// Of a deadline in milliseconds, 0 = none, after waiting.
std::uint32_t left_of(std::uint32_t deadline_ms, Duration waited) {
  const auto waited_ms = std::chrono::duration_cast<std::chrono::milliseconds>(waited).count();
  if (deadline_ms == 0) return 0;
  return waited_ms < deadline_ms ? deadline_ms - static_cast<std::uint32_t>(waited_ms) : 1;
}

}  // namespace

void DeviceConnection::send_plan(const Plan& plan, std::shared_ptr<const Bytes> sync) {
  Plan first = plan;
  first.sync_bytes = sync ? sync->size() : 0;
  ++plans_;
  if (first.sync_bytes <= kSyncAtOnceMax) {
    if (sync) first.sync_head = *sync;
    send(first);
    return;
  }
  auto task = send_sync(shared_from_this(), first, std::move(sync), plans_);
  if (const Status spawned = owner_.tasks().spawn("sync", std::move(task)); !spawned) close(spawned.error().message());
}

asio::awaitable<void> DeviceConnection::send_sync(std::shared_ptr<DeviceConnection> self, Plan plan,
                                                  std::shared_ptr<const Bytes> sync, std::uint64_t turn) {
  // A thousand devices may want a patch or a whole model at once: each holds at most one chunk, and the chunks together
  // are bounded.
  auto& credit = self->owner_.sync_credit();
  const auto alive = self->alive_;
  const Instant began = self->owner_.clock().now();
  for (std::size_t offset = 0; offset < sync->size();) {
    const std::size_t size = std::min(kSyncChunkBytes, sync->size() - offset);
    const bool taken = co_await credit.take(size, alive);
    if (!taken) co_return;
    if (self->plans_ != turn) {
      credit.give(size);
      co_return;
    }
    Status sent;
    try {
      Bytes frame;
      if (offset == 0) {
        plan.deadline_ms = left_of(plan.deadline_ms, self->owner_.clock().now() - began);
        plan.sync_head = ByteView(*sync).first(size);
        frame = encode_frame(plan);
      } else {
        SyncChunk chunk{.plan = plan.id, .offset = offset, .bytes = ByteView(*sync).subspan(offset, size)};
        frame = encode_frame(chunk);
      }
      self->sync_due_ =
          self->owner_.clock().now() + kSyncPatience + std::chrono::seconds(size / kSyncBytesPerSecondMin);
      sent = co_await self->link_->send_and_wait(std::move(frame));
      self->sync_due_.reset();
    } catch (...) {
      credit.give(size);
      throw;
    }
    self->said_something_ = true;
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
  *alive_ = false;
  link_->close(reason);
  // Its own coroutines may stand in these queues.
  owner_.upload_credit().wake_all();
  owner_.sync_credit().wake_all();
}

void DeviceConnection::show_life() {
  if (sync_due_ && owner_.clock().now() > *sync_due_) return close("it reads too slowly what brings it up to date");
  // What is on its way already is a sign of life too.
  if (greeted && !said_something_ && link_->queued_bytes() == 0) send(Heartbeat{});
  said_something_ = false;
}

}  // namespace gleaner
