#pragma once
// A TLS 1.3 connection as a stream of bytes for HTTP, with the certificates, rules and messages of the devices' links
// (protocol/link). Both sides of the remote operator's connection use it. One read and one write at a time, on the
// socket's executor; a time-out ends what waits with beast::error::timeout.

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/clock.hpp"
#include "common/error.hpp"
#include "protocol/link/identify.hpp"
#include "protocol/link/tls_context.hpp"
#include "protocol/link/tls_error.hpp"

namespace gleaner::admin {

class TlsStream {
 public:
  using executor_type = boost::asio::any_io_executor;
  using error_code = boost::system::error_code;

  // address: of the far side, for messages.
  TlsStream(boost::asio::ip::tcp::socket socket, TlsContext context, std::string address);
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;
  ~TlsStream();

  executor_type get_executor() { return socket_.get_executor(); }
  void expires_after(Duration time);
  void expires_never() { timer_.cancel(); }

  template <class Token>
  auto async_handshake(Token&& token) {
    return start<void(error_code)>(Doing::handshake, {}, std::forward<Token>(token));
  }
  template <class Buffers, class Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    return start<void(error_code, std::size_t)>(Doing::read, first_of<boost::asio::mutable_buffer>(buffers),
                                                std::forward<Token>(token));
  }
  template <class Buffers, class Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    const auto bytes = first_of<boost::asio::const_buffer>(buffers);
    // OpenSSL only reads from it.
    return start<void(error_code, std::size_t)>(
        Doing::write, boost::asio::mutable_buffer(const_cast<void*>(bytes.data()), bytes.size()),
        std::forward<Token>(token));
  }

  // After the handshake. Errors: peer_fault, as one line.
  Result<PeerIdentity> peer() const;
  // What TLS says of the error that an operation ended with; nothing when the network or the clock ended it.
  const std::optional<Error>& fault() const { return fault_; }
  // Says goodbye if it leaves at once; nothing is written after it.
  void finish();

 private:
  enum class Doing { handshake, read, write };
  struct Outcome {
    std::optional<boost::asio::ip::tcp::socket::wait_type> wait;  // the socket is not ready
    error_code error;
    std::size_t size = 0;
  };
  struct FreeSsl {
    void operator()(ssl_st* ssl) const noexcept;
  };

  struct Operation {
    TlsStream& stream;
    Doing doing;
    boost::asio::mutable_buffer buffer;
    bool begun = false;
    std::optional<Outcome> outcome = std::nullopt;

    template <class Self>
    void operator()(Self& self, error_code error = {}) {
      if (!outcome) {
        Outcome now = stream.attempt(doing, buffer, error);
        const bool inside_caller = !std::exchange(begun, true);
        if (now.wait) return stream.socket_.async_wait(*now.wait, std::move(self));
        outcome = now;
        if (inside_caller) return boost::asio::post(stream.get_executor(), std::move(self));
      }
      const Outcome end = *outcome;
      if constexpr (requires { self.complete(end.error, end.size); }) {
        self.complete(end.error, end.size);
      } else {
        self.complete(end.error);
      }
    }
  };

  template <class Signature, class Token>
  auto start(Doing doing, boost::asio::mutable_buffer buffer, Token&& token) {
    return boost::asio::async_compose<Token, Signature>(Operation{*this, doing, buffer}, token, socket_);
  }
  template <class Buffer, class Buffers>
  static Buffer first_of(const Buffers& buffers) {
    const auto end = boost::asio::buffer_sequence_end(buffers);
    for (auto at = boost::asio::buffer_sequence_begin(buffers); at != end; ++at) {
      if (const Buffer buffer(*at); buffer.size() > 0) return buffer;
    }
    return {};
  }

  // One try; waited: how the wait before it ended.
  Outcome attempt(Doing doing, boost::asio::mutable_buffer buffer, error_code waited);
  Outcome failed(Doing doing, int result, int system_error);

  TlsContext context_;
  TlsConnection connection_;
  std::string address_;
  boost::asio::ip::tcp::socket socket_;
  std::unique_ptr<ssl_st, FreeSsl> ssl_;  // goes before socket, connection and context
  boost::asio::steady_timer timer_;
  std::optional<Error> fault_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  bool expired_ = false;
  bool dead_ = false;  // OpenSSL may not be asked any more
};

}  // namespace gleaner::admin
