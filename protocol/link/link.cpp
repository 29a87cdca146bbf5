#include "protocol/link/link.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>

#include "common/check.hpp"

namespace gleaner {
namespace {

constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kTurnBytes = 256U << 10;
constexpr std::size_t kFrameCostBytes = 4096;  // what handling the smallest frame costs, in bytes of a large one
using boost::system::error_code;

}  // namespace

void Link::FreeSsl::operator()(ssl_st* ssl) const noexcept { SSL_free(ssl); }

Link::Link(asio::ip::tcp::socket socket, TlsContext context, LinkLimits limits, std::string address)
    : context_(std::move(context)),
      limits_(limits),
      socket_(std::move(socket)),
      watchdog_(socket_.get_executor()),
      room_(socket_.get_executor(), kNever),
      address_(std::move(address)) {}

// The last owner is gone without close(): a goodbye if it leaves at once.
Link::~Link() {
  if (phase_ != Phase::closed && ssl_ && SSL_is_init_finished(ssl_.get()) == 1) {
    ERR_clear_error();
    SSL_shutdown(ssl_.get());
    account();
    ERR_clear_error();
  }
}

// After every SSL call that may touch the socket.
void Link::account() {
  const std::uint64_t in = BIO_number_read(SSL_get_rbio(ssl_.get()));
  const std::uint64_t out = BIO_number_written(SSL_get_wbio(ssl_.get()));
  if (totals_) {
    totals_->bytes_in += in - counters_.bytes_in;
    totals_->bytes_out += out - counters_.bytes_out;
  }
  counters_.bytes_in = in;
  counters_.bytes_out = out;
}

Error Link::reason() const { return reason_ ? *reason_ : Error(ErrorCode::retry, address_ + ": the link has ended"); }

// What an SSL call's result means for its caller. On failure the link has ended or is ending.
Link::Step Link::step(int result, bool writing) {
  const int system_error = errno;
  account();
  if (result == 1) return Step::progress;
  TlsFault fault{.ssl_error = SSL_get_error(ssl_.get(), result),
                 .queue_code = ERR_peek_last_error(),
                 .system_error = system_error};
  ERR_clear_error();
  switch (fault.ssl_error) {
    case SSL_ERROR_WANT_READ: return Step::want_read;
    case SSL_ERROR_WANT_WRITE: return Step::want_write;
    case SSL_ERROR_ZERO_RETURN:
      if (awaited_ == Awaited::handshake) break;
      begin_close(Error(ErrorCode::retry, address_ + ": closed by the far side"));
      return Step::failed;
    default: break;
  }
  Error error = describe_tls_fault(context_, connection_, address_, fault);
  if (writing) {
    if (auto words = parting_words()) error = std::move(*words);
  }
  if (awaited_ == Awaited::handshake) {
    reason_ = std::move(error);  // handshake() ends the link when the far side has heard the alert
  } else {
    abort(std::move(error));
  }
  return Step::failed;
}

// A write broke: an alert that the far side sent before it went says why.
std::optional<Error> Link::parting_words() {
  std::byte next{};
  std::size_t size = 0;
  const int result = SSL_peek_ex(ssl_.get(), &next, 1, &size);
  if (result == 1) return std::nullopt;
  const TlsFault fault{.ssl_error = SSL_get_error(ssl_.get(), result), .queue_code = ERR_peek_last_error()};
  ERR_clear_error();
  if (!is_alert(fault)) return std::nullopt;
  return describe_tls_fault(context_, connection_, address_, fault);
}

// After close() the descriptor may belong to somebody else: no SSL call may touch it.
Link::Step Link::try_handshake() {
  if (phase_ == Phase::closed) return Step::failed;
  ERR_clear_error();
  errno = 0;
  return step(SSL_do_handshake(ssl_.get()), false);
}

Link::Step Link::try_read(std::span<std::byte> out, std::size_t& done) {
  if (phase_ != Phase::open || unreadable_) return Step::failed;
  ERR_clear_error();
  errno = 0;
  std::size_t size = 0;
  const Step step = this->step(SSL_read_ex(ssl_.get(), out.data(), out.size(), &size), false);
  if (size > 0 && limits_.write_waits_while_heard) heard_at_ = Clock::now();
  done += size;
  return step;
}

Link::Step Link::try_write(ByteView in, std::size_t& done) {
  if (phase_ == Phase::closed) return Step::failed;
  ERR_clear_error();
  errno = 0;
  std::size_t size = 0;
  const Step step = this->step(SSL_write_ex(ssl_.get(), in.data(), in.size(), &size), true);
  done += size;
  return step;
}

// Returns when the socket may be ready, when close() or abort() woke it, or when the caller was cancelled, which ends
// the link.
asio::awaitable<void> Link::wait(Step step) {
  const Wait kind = step == Step::want_write ? Wait::wait_write : Wait::wait_read;
  read_in_turn_bytes_ = 0;
  const auto [error] = co_await socket_.async_wait(kind, kAsTuple);
  const auto state = co_await asio::this_coro::cancellation_state;
  if (state.cancelled() != asio::cancellation_type::none) {
    abort(Error(ErrorCode::retry, address_ + ": cancelled"));
  } else if (error && error != asio::error::operation_aborted) {
    abort(Error(ErrorCode::retry, fmt::format("{}: {}", address_, error.message())));
  }
}

asio::awaitable<Status> Link::fill(std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const Step step = try_read(out.subspan(done), done);
    if (step == Step::failed) co_return fail(reason());
    if (step == Step::progress) continue;
    co_await wait(step);
  }
  co_return Status();
}

asio::awaitable<Result<InFrame>> Link::read(Sender expected) {
  const Result<FrameHeader> header = co_await read_header(expected);
  if (!header) co_return fail(header.error());
  InFrame frame{.header = *header, .body = AlignedBuffer(header->body_bytes)};
  Status status = co_await read_part(frame.body.bytes());
  if (!status) co_return fail(std::move(status).error());
  co_return frame;
}

asio::awaitable<Result<FrameHeader>> Link::read_header(Sender expected) {
  GLEANER_CHECK(body_left_bytes_ == 0 || !is_open() || unreadable_);
  std::array<std::byte, FrameHeader::kBytes> start{};
  // Between frames silence is allowed for long; within one it is not.
  expect(Awaited::frame_start, limits_.idle_timeout);
  Status status = co_await fill(std::span(start).first(1));
  if (!status) co_return fail(std::move(status).error());
  expect(Awaited::frame_rest, limits_.frame_timeout);
  status = co_await fill(std::span(start).subspan(1));
  if (!status) co_return fail(std::move(status).error());
  const Result<FrameHeader> header = decode_header(start, expected);
  if (!header) {
    unreadable_ = true;
    read_deadline_ = kNever;
    reason_ = header.error().within(address_);
    co_return fail(*reason_);
  }
  read_deadline_ = kNever;
  body_bytes_ = header->body_bytes;
  body_left_bytes_ = header->body_bytes;
  if (totals_ && !is_heartbeat(header->type)) totals_->frame_bytes_in += FrameHeader::kBytes + header->body_bytes;
  co_return *header;
}

asio::awaitable<Status> Link::read_part(std::span<std::byte> out) {
  GLEANER_CHECK(out.size() <= body_left_bytes_);
  const std::uint32_t rate = std::max(limits_.frame_bytes_per_s_min, 1U);
  const std::chrono::milliseconds transfer(std::uint64_t{out.size()} * 1000 / rate);
  expect(Awaited::frame_rest, limits_.frame_timeout + transfer);
  Status status = co_await fill(out);
  if (!status) co_return fail(std::move(status).error());
  read_deadline_ = kNever;
  body_left_bytes_ -= static_cast<std::uint32_t>(out.size());
  if (body_left_bytes_ > 0) co_return Status();
  ++counters_.frames_in;
  // A far side that always has the next frame ready must not keep the thread from the others.
  read_in_turn_bytes_ += std::max<std::size_t>(body_bytes_, kFrameCostBytes);
  if (read_in_turn_bytes_ >= kTurnBytes) {
    read_in_turn_bytes_ = 0;
    co_await asio::post(asio::use_awaitable);
  }
  co_return Status();
}

void Link::close(const std::string& reason) {
  begin_close(Error(ErrorCode::retry, fmt::format("{}: closed: {}", address_, reason)));
}

void Link::begin_close(Error reason) {
  if (phase_ != Phase::open) return;
  phase_ = Phase::closing;
  if (!reason_) reason_ = std::move(reason);
  read_deadline_ = kNever;
  close_deadline_ = Clock::now() + limits_.close_timeout;
  arm_watchdog();
  wake();
  room_.cancel();
  start_writer();
}

// Whoever waits for the socket looks again at how things stand.
void Link::wake() {
  error_code ignored;
  socket_.cancel(ignored);
}

void Link::abort(Error reason) {
  if (phase_ == Phase::closed) return;
  phase_ = Phase::closed;
  if (!reason_) reason_ = std::move(reason);
  watchdog_.cancel();
  room_.cancel();
  error_code ignored;
  socket_.close(ignored);
}

void Link::expect(Awaited awaited, Clock::duration timeout) {
  if (phase_ != Phase::open) return;
  awaited_ = awaited;
  read_deadline_ = Clock::now() + timeout;
  arm_watchdog();
}

// The timer is moved only when a deadline comes nearer; one that moved away is found when the timer fires. So a busy
// link costs no timer work per frame.
void Link::arm_watchdog() {
  const Clock::time_point earliest = std::min({read_deadline_, write_deadline_, close_deadline_});
  if (earliest >= armed_for_) return;
  armed_for_ = earliest;
  watchdog_.expires_at(earliest);
  watchdog_.async_wait([weak = weak_from_this()](const error_code& error) {
    if (error) return;
    if (const auto self = weak.lock()) self->on_watchdog();
  });
}

void Link::on_watchdog() {
  armed_for_ = kNever;
  if (phase_ == Phase::closed) return;
  const Clock::time_point now = Clock::now();
  if (now >= close_deadline_) {
    abort(reason());
  } else if (now >= write_deadline_ && limits_.write_waits_while_heard && now < heard_at_ + limits_.idle_timeout) {
    write_deadline_ = heard_at_ + limits_.idle_timeout;
  } else if (now >= write_deadline_) {
    abort(Error(ErrorCode::retry, address_ + ": it reads too slowly: dropped"));
  } else if (now >= read_deadline_) {
    switch (awaited_) {
      case Awaited::handshake:
        abort(Error(ErrorCode::retry, address_ + ": no TLS handshake in time; does it speak TLS?"));
        break;
      case Awaited::frame_start: begin_close(Error(ErrorCode::retry, address_ + ": nothing was heard in time")); break;
      case Awaited::frame_rest:
        // Only the reading ends: the far side may still be told.
        unreadable_ = true;
        read_deadline_ = kNever;
        reason_ = Error(ErrorCode::peer_fault, address_ + ": a frame did not arrive in time: dropped");
        wake();
        break;
    }
  }
  if (phase_ != Phase::closed) arm_watchdog();
}

}  // namespace gleaner
