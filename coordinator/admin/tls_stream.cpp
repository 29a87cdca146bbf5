#include "coordinator/admin/tls_stream.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <boost/beast/core/error.hpp>
#include <cerrno>

namespace gleaner::admin {

namespace asio = boost::asio;
using asio::ip::tcp;

void TlsStream::FreeSsl::operator()(ssl_st* ssl) const noexcept { SSL_free(ssl); }

TlsStream::TlsStream(tcp::socket socket, TlsContext context, std::string address)
    : context_(std::move(context)),
      address_(std::move(address)),
      socket_(std::move(socket)),
      timer_(socket_.get_executor()) {
  error_code error;
  socket_.non_blocking(true, error);
  if (!error) socket_.set_option(tcp::no_delay(true), error);
  if (!context_.is_server()) connection_.server = address_;
  if (!error) ssl_.reset(context_.new_connection(socket_.native_handle(), connection_));
  dead_ = ssl_ == nullptr;
}

TlsStream::~TlsStream() {
  *alive_ = false;
  finish();
}

void TlsStream::expires_after(Duration time) {
  expired_ = false;
  timer_.expires_after(time);
  timer_.async_wait([this, alive = alive_](const error_code& error) {
    // Set anew meanwhile, or the stream is gone.
    if (error || !*alive || timer_.expiry() > std::chrono::steady_clock::now()) return;
    expired_ = true;
    error_code ignored;
    socket_.cancel(ignored);
  });
}

Result<PeerIdentity> TlsStream::peer() const { return identify_peer(context_, ssl_.get(), address_); }

void TlsStream::finish() {
  if (dead_ || SSL_is_init_finished(ssl_.get()) != 1) return;
  dead_ = true;
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
  ERR_clear_error();
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
}

TlsStream::Outcome TlsStream::attempt(Doing doing, asio::mutable_buffer buffer, error_code waited) {
  if (expired_) return {.wait = {}, .error = boost::beast::error::timeout};
  if (waited) return {.wait = {}, .error = waited};
  if (dead_) return {.wait = {}, .error = asio::error::not_connected};
  if (doing != Doing::handshake && buffer.size() == 0) return {};
  ERR_clear_error();
  errno = 0;
  std::size_t size = 0;
  int result = 0;
  switch (doing) {
    case Doing::handshake: result = SSL_do_handshake(ssl_.get()); break;
    case Doing::read: result = SSL_read_ex(ssl_.get(), buffer.data(), buffer.size(), &size); break;
    case Doing::write: result = SSL_write_ex(ssl_.get(), buffer.data(), buffer.size(), &size); break;
  }
  if (result == 1) return {.wait = {}, .error = {}, .size = size};
  return failed(doing, result, errno);
}

TlsStream::Outcome TlsStream::failed(Doing doing, int result, int system_error) {
  TlsFault fault{.ssl_error = SSL_get_error(ssl_.get(), result),
                 .queue_code = ERR_peek_last_error(),
                 .system_error = system_error};
  ERR_clear_error();
  switch (fault.ssl_error) {
    case SSL_ERROR_WANT_READ: return {.wait = tcp::socket::wait_read};
    case SSL_ERROR_WANT_WRITE: return {.wait = tcp::socket::wait_write};
    case SSL_ERROR_ZERO_RETURN: return {.wait = {}, .error = asio::error::eof};
    default: break;
  }
  if (doing == Doing::write) {
    // An alert that the far side sent before it went says more than the broken connection.
    std::byte next{};
    std::size_t size = 0;
    const int peeked = SSL_peek_ex(ssl_.get(), &next, 1, &size);
    const TlsFault words{.ssl_error = SSL_get_error(ssl_.get(), peeked), .queue_code = ERR_peek_last_error()};
    ERR_clear_error();
    if (peeked != 1 && is_alert(words)) fault = words;
  }
  dead_ = true;
  fault_ = describe_tls_fault(context_, connection_, address_, fault);
  return {.wait = {}, .error = asio::error::connection_reset};
}

}  // namespace gleaner::admin
