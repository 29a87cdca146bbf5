#pragma once
// One TLS 1.3 connection between a device and a coordinator, as frames. The TLS runs on the socket itself (no buffers
// of a stream between them), so that an idle link costs little.
//
// Threads: every call, accept and connect included, on the link's executor, which runs one handler at a time (a
// single-threaded io_context or a strand).
// Errors: retry when the far side or the network went away, peer_fault when its bytes are wrong, bad_input never. No
// exception leaves a call but std::bad_alloc, and Asio's own when the calling coroutine was cancelled.
// Bounds: a read holds one frame, or what its caller gives it; the write queue holds queue_bytes_max or one frame.

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "common/bytes.hpp"
#include "common/error.hpp"
#include "protocol/aligned_buffer.hpp"
#include "protocol/link/tls_context.hpp"
#include "protocol/link/tls_error.hpp"
#include "protocol/messages.hpp"

namespace gleaner {

namespace asio = boost::asio;

struct LinkLimits {
  std::chrono::milliseconds connect_timeout{10'000};    // name, and TCP to each address
  std::chrono::milliseconds handshake_timeout{10'000};  // TLS
  std::chrono::milliseconds idle_timeout{90'000};       // silence while a read waits; three heartbeats
  std::chrono::milliseconds frame_timeout{20'000};      // a frame that began arrives within this and its size at ...
  std::uint32_t frame_bytes_per_s_min = 4096;           // ... this rate
  std::chrono::milliseconds write_timeout{30'000};      // for 16 KiB to leave
  std::chrono::milliseconds close_timeout{2'000};       // for the queue and the goodbyes after close()
  // A far side that says something within idle_timeout is busy, not gone: our bytes may wait, whatever write_timeout.
  bool write_waits_while_heard = false;
  std::size_t queue_bytes_max = 4U << 20;
};

struct LinkCounters {
  std::uint64_t bytes_in = 0;  // at the socket: handshake, TLS and all
  std::uint64_t bytes_out = 0;
  std::uint64_t frames_in = 0;
  std::uint64_t frames_out = 0;
};

// Bytes at the sockets of many links, failed handshakes and goodbyes included; on their executor.
struct LinkTotals {
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t frame_bytes_in = 0;  // of whole frames as encoded, heartbeats apart
  std::uint64_t frame_bytes_out = 0;
};

struct InFrame {
  FrameHeader header;
  AlignedBuffer body;  // what decode_body's views point into
};

class Link : public std::enable_shared_from_this<Link> {
 public:
  using Opened = Result<std::shared_ptr<Link>>;

  // The server's half of a handshake. The peer is a device or an operator whose certificate is valid now, also when its
  // session was resumed; revocation is the caller's to check (peer().serial).
  static asio::awaitable<Opened> accept(asio::ip::tcp::socket socket, TlsContext context, LinkLimits limits,
                                        std::shared_ptr<LinkTotals> totals = nullptr);

  // host: a name or an address. In TLS 1.3 the server judges our certificate after this has succeeded: its refusal is
  // the error of the first read.
  static asio::awaitable<Opened> connect(asio::any_io_executor executor, std::string host, std::uint16_t port,
                                         TlsContext context, LinkLimits limits);

  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  const PeerIdentity& peer() const { return peer_; }
  const std::string& address() const { return address_; }  // "192.0.2.1:4433"
  bool resumed() const { return resumed_; }
  LinkCounters counters() const { return counters_; }
  asio::any_io_executor executor() { return socket_.get_executor(); }

  // The next frame; one read at a time. After an error every read fails. When the bytes were wrong (peer_fault), frames
  // can still be sent, so that the caller can say why before it closes. A read that is cancelled ends the link.
  asio::awaitable<Result<InFrame>> read(Sender expected);
  // The same in pieces, for who decides by the header or by the body's first bytes before the rest is held: after the
  // header come parts until the body is whole. No time limit runs between them, so that the caller may wait for memory;
  // each part has a frame's time, and that of its size.
  asio::awaitable<Result<FrameHeader>> read_header(Sender expected);
  asio::awaitable<Status> read_part(std::span<std::byte> out);

  // Queues the frame; it leaves together with others that are small. retry when the queue has no room: the far side
  // reads too slowly, and the caller drops it.
  Status send(Bytes frame);
  // Waits until the queue has room, queues, and waits until the frame has left: for large transfers, so that who bounds
  // them by what is on its way counts right.
  asio::awaitable<Status> send_and_wait(Bytes frame);
  std::size_t queued_bytes() const { return queued_bytes_; }

  // Ends the link: reads fail at once with the reason; what is queued still leaves, then the goodbyes, all within
  // close_timeout. Idempotent.
  void close(const std::string& reason);
  bool is_open() const { return phase_ == Phase::open; }
  // From now on an open read fails after this much silence; three heartbeats, once the far side has named its interval.
  void set_idle_timeout(std::chrono::milliseconds timeout) { limits_.idle_timeout = timeout; }

 private:
  using Clock = std::chrono::steady_clock;
  using Wait = asio::ip::tcp::socket::wait_type;
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  enum class Phase : std::uint8_t { open, closing, closed };
  enum class Awaited : std::uint8_t { handshake, frame_start, frame_rest };
  enum class Step : std::uint8_t { progress, want_read, want_write, failed };
  struct FreeSsl {
    void operator()(ssl_st* ssl) const noexcept;
  };

  Link(asio::ip::tcp::socket socket, TlsContext context, LinkLimits limits, std::string address);

  static asio::awaitable<Opened> open(std::shared_ptr<Link> link);
  asio::awaitable<Status> handshake();
  asio::awaitable<void> let_alert_arrive();
  Status identify();
  Step step(int result, bool writing);
  void account();
  Step try_handshake();
  Step try_read(std::span<std::byte> out, std::size_t& done);
  Step try_write(ByteView in, std::size_t& done);
  std::optional<Error> parting_words();
  asio::awaitable<void> wait(Step step);
  asio::awaitable<Status> fill(std::span<std::byte> out);

  ByteView next_slice(Bytes& stage) const;
  void consume(std::size_t size_bytes);
  void start_writer();
  asio::awaitable<void> write_loop();
  asio::awaitable<void> say_goodbye();

  void begin_close(Error reason);
  void wake();
  void abort(Error reason);
  void expect(Awaited awaited, Clock::duration timeout);
  void arm_watchdog();
  void on_watchdog();
  Error reason() const;

  TlsContext context_;
  TlsConnection connection_;
  LinkLimits limits_;
  asio::ip::tcp::socket socket_;
  std::unique_ptr<ssl_st, FreeSsl> ssl_;  // goes before socket, connection and context
  asio::steady_timer watchdog_;
  asio::steady_timer room_;  // never expires; cancelled when the queue shrinks or the link ends
  std::string address_;
  PeerIdentity peer_;
  std::optional<Error> reason_;
  std::list<Bytes> queue_;
  std::size_t front_sent_bytes_ = 0;
  std::size_t queued_bytes_ = 0;
  LinkCounters counters_;
  std::shared_ptr<LinkTotals> totals_;  // null: nobody adds up
  Clock::time_point heard_at_;
  Clock::time_point read_deadline_ = kNever;
  Clock::time_point write_deadline_ = kNever;
  Clock::time_point close_deadline_ = kNever;
  Clock::time_point armed_for_ = kNever;
  Phase phase_ = Phase::open;
  Awaited awaited_ = Awaited::handshake;
  std::uint32_t body_bytes_ = 0;  // of the frame that is read in pieces
  std::uint32_t body_left_bytes_ = 0;
  std::size_t read_in_turn_bytes_ = 0;
  bool writer_runs_ = false;
  bool unreadable_ = false;  // the far side's bytes make no sense any more
  bool resumed_ = false;
};

}  // namespace gleaner
