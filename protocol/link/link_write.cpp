// The write half of a link: frames queue up, leave in TLS records as full as possible, and at the end the goodbyes.

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "common/log.hpp"
#include "protocol/link/link.hpp"

namespace gleaner {
namespace {

constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kRecordBytesMax = 16U << 10;
constexpr std::size_t kDrainBytes = 1024;
using boost::system::error_code;

std::string what_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "unknown exception";
  }
}

}  // namespace

Status Link::send(Bytes frame) {
  if (phase_ != Phase::open) return fail(reason());
  if (queued_bytes_ > 0 && queued_bytes_ + frame.size() > limits_.queue_bytes_max) {
    return fail(ErrorCode::retry, address_ + ": it reads too slowly: the write queue is full");
  }
  queued_bytes_ += frame.size();
  queue_.push_back(std::move(frame));
  start_writer();
  return {};
}

asio::awaitable<Status> Link::send_and_wait(Bytes frame) {
  while (phase_ == Phase::open && queued_bytes_ > 0 && queued_bytes_ + frame.size() > limits_.queue_bytes_max) {
    co_await room_.async_wait(kAsTuple);
  }
  const Status queued = send(std::move(frame));
  if (!queued) co_return queued;
  const std::uint64_t last = counters_.frames_out + queue_.size();
  while (phase_ != Phase::closed && counters_.frames_out < last) co_await room_.async_wait(kAsTuple);
  if (counters_.frames_out < last) co_return fail(reason());
  co_return Status{};
}

// Bytes to write next: a full record of the first frame in place, or what several frames have, gathered in stage.
ByteView Link::next_slice(Bytes& stage) const {
  const ByteView front = ByteView(queue_.front()).subspan(front_sent_bytes_);
  if (front.size() >= kRecordBytesMax) return front.first(kRecordBytesMax);
  stage.clear();
  stage.reserve(kRecordBytesMax);
  std::size_t skip = front_sent_bytes_;
  for (const Bytes& frame : queue_) {
    const ByteView rest = ByteView(frame).subspan(skip);
    const ByteView part = rest.first(std::min(rest.size(), kRecordBytesMax - stage.size()));
    stage.insert(stage.end(), part.begin(), part.end());
    if (stage.size() == kRecordBytesMax) break;
    skip = 0;
  }
  return stage;
}

void Link::consume(std::size_t size_bytes) {
  queued_bytes_ -= size_bytes;
  while (size_bytes > 0) {
    const std::size_t rest = queue_.front().size() - front_sent_bytes_;
    if (size_bytes < rest) {
      front_sent_bytes_ += size_bytes;
      break;
    }
    size_bytes -= rest;
    front_sent_bytes_ = 0;
    const Bytes& sent = queue_.front();
    if (totals_ && !is_heartbeat(std::to_integer<std::uint8_t>(sent[FrameHeader::kBytes - 1])))
      totals_->frame_bytes_out += sent.size();
    queue_.pop_front();
    ++counters_.frames_out;
  }
  room_.cancel();
}

// The writer exists while there is something to write, so that an idle link does not pay for it.
void Link::start_writer() {
  if (writer_runs_) return;
  writer_runs_ = true;
  auto self = shared_from_this();
  asio::co_spawn(socket_.get_executor(), write_loop(), [self](const std::exception_ptr& error) {
    if (!error) return;
    log_error("{}: the writer failed: {}", self->address_, what_of(error));
    self->abort(Error(ErrorCode::retry, self->address_ + ": out of memory while writing"));
  });
}

asio::awaitable<void> Link::write_loop() {
  Bytes stage;
  co_await asio::post(asio::use_awaitable);  // what the same handler sends next shall share the record
  while (phase_ != Phase::closed && !queue_.empty()) {
    const ByteView slice = next_slice(stage);
    write_deadline_ = Clock::now() + limits_.write_timeout;
    arm_watchdog();
    std::size_t sent = 0;
    while (sent < slice.size()) {
      const Step step = try_write(slice.subspan(sent), sent);
      if (step == Step::failed) break;
      if (step != Step::progress) co_await wait(step);
    }
    write_deadline_ = kNever;
    if (sent == slice.size()) consume(sent);
  }
  if (phase_ == Phase::closing) co_await say_goodbye();
  if (phase_ == Phase::closed) {
    queue_.clear();
    queued_bytes_ = 0;
  }
  // Nothing was awaited since the queue was found empty: no frame can have been queued unseen.
  writer_runs_ = false;
}

// Our close_notify, then the far side's: only when it has said goodbye too it has surely read what we sent.
asio::awaitable<void> Link::say_goodbye() {
  for (;;) {
    ERR_clear_error();
    const int result = SSL_shutdown(ssl_.get());
    account();
    if (result >= 0) break;
    if (SSL_get_error(ssl_.get(), result) != SSL_ERROR_WANT_WRITE) break;
    co_await wait(Step::want_write);
    if (phase_ == Phase::closed) co_return;
  }
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  std::array<std::byte, kDrainBytes> scratch{};
  for (;;) {
    std::size_t size = 0;
    ERR_clear_error();
    const int result = SSL_read_ex(ssl_.get(), scratch.data(), scratch.size(), &size);
    account();
    if (result == 1) continue;
    if (SSL_get_error(ssl_.get(), result) != SSL_ERROR_WANT_READ) break;
    co_await wait(Step::want_read);
    if (phase_ == Phase::closed) co_return;
  }
  ERR_clear_error();
  abort(reason());
}

}  // namespace gleaner
