#include "coordinator/admin/connection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/version.hpp>

#include "common/bytes.hpp"
#include "common/log.hpp"
#include "coordinator/admin/tls_stream.hpp"
#include "coordinator/admin/unix_socket.hpp"
#include "protocol/link/host_port.hpp"

namespace gleaner::admin {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Parser = http::request_parser<http::string_body>;
using boost::system::error_code;

constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kPieceBytes = 1U << 20;
constexpr std::uint64_t kDrainBytesMax = 8U << 20;
constexpr Duration kDrainTime = std::chrono::seconds(2);

template <class Protocol>
using Stream = beast::basic_stream<Protocol, asio::any_io_executor>;

template <class Protocol>
void finish(Stream<Protocol>& stream) {
  error_code ignored;
  stream.socket().shutdown(Protocol::socket::shutdown_send, ignored);
}
void finish(TlsStream& stream) { stream.finish(); }

// A peer that closed or fell silent gets no reply.
bool deserves_reply(const error_code& error) {
  return error.category() == make_error_code(http::error::end_of_stream).category() &&
         error != http::error::end_of_stream && error != http::error::partial_message;
}

Reply reply_to_garbage(const error_code& error, const Door& door, const AdminLimits& limits) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    const Error what(ErrorCode::bad_input,
                     fmt::format("the request's header is longer than {} bytes", limits.header_bytes_max));
    Reply reply = error_reply(what);
    reply.status = 431;
    return reply;
  }
  if (error == http::error::body_limit) {
    Reply reply = error_reply(
        Error(ErrorCode::bad_input, fmt::format("the request's body is longer than {} bytes", door.body_bytes_max)));
    reply.status = 413;
    return reply;
  }
  return error_reply(Error(ErrorCode::bad_input, fmt::format("no valid HTTP request: {}", error.message())));
}

template <class AnyStream>
asio::awaitable<error_code> write_all(AnyStream& stream, ByteView bytes, Duration timeout) {
  while (!bytes.empty()) {
    const ByteView piece = bytes.first(std::min(bytes.size(), kPieceBytes));
    const asio::const_buffer buffer(piece.data(), piece.size());
    stream.expires_after(timeout);
    const auto [error, written] = co_await asio::async_write(stream, buffer, kAsTuple);
    if (error) co_return error;
    bytes = bytes.subspan(written);
  }
  co_return error_code{};
}

struct Shape {
  unsigned version = 11;
  bool keep_alive = false;
  bool head = false;  // without the body
};

// stream and reply belong to the caller, who awaits this.
template <class AnyStream>
asio::awaitable<error_code> write_reply(AnyStream& stream, const Reply& reply, Shape shape, Duration timeout) {
  http::response<http::empty_body> head(http::int_to_status(reply.status), shape.version);
  head.set(http::field::server, "gleaner");
  head.set(http::field::content_type, reply.content_type);
  head.set(http::field::cache_control, "no-store");
  const ByteView tail = reply.model ? std::as_bytes(std::span(reply.model->parameters)) : ByteView();
  head.content_length(reply.body.size() + tail.size());
  head.keep_alive(shape.keep_alive);
  http::response_serializer<http::empty_body> serializer(head);
  stream.expires_after(timeout);
  const auto [error, written] = co_await http::async_write_header(stream, serializer, kAsTuple);
  if (error || shape.head) co_return error;
  const error_code body_error = co_await write_all(stream, as_bytes(reply.body), timeout);
  if (body_error) co_return body_error;
  co_return co_await write_all(stream, tail, timeout);
}

// A peer that is still writing when its socket closes would lose our reply: what it writes is read, up to a bound.
template <class AnyStream>
asio::awaitable<void> drain(AnyStream& stream, beast::flat_buffer& buffer) {
  finish(stream);
  stream.expires_after(kDrainTime);
  for (std::uint64_t drained = 0; drained < kDrainBytesMax;) {
    buffer.clear();
    const auto space = buffer.prepare(buffer.max_size());
    const auto [error, size] = co_await stream.async_read_some(space, kAsTuple);
    if (error) co_return;
    drained += size;
  }
}

template <class AnyStream>
asio::awaitable<error_code> read_request(AnyStream& stream, beast::flat_buffer& buffer, Parser& parser,
                                         Duration timeout) {
  stream.expires_after(timeout);  // for the whole request, so that trickling gains nothing
  const auto [header_error, header_size] = co_await http::async_read_header(stream, buffer, parser, kAsTuple);
  if (header_error) co_return header_error;
  if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    const http::response<http::empty_body> go_on(http::status::continue_, 11);
    const auto [error, size] = co_await http::async_write(stream, go_on, kAsTuple);
    if (error) co_return error;
  }
  const auto [error, size] = co_await http::async_read(stream, buffer, parser, kAsTuple);
  co_return error;
}

Call call_of(Parser& parser) {
  auto& message = parser.get();
  Call call;
  call.method = std::string(message.method_string());
  call.target = std::string(message.target());
  call.body = std::move(message.body());
  return call;
}

Shape shape_of(const Parser& parser) {
  const auto& message = parser.get();
  return {message.version(), message.keep_alive(), message.method() == http::verb::head};
}

Reply not_allowed(const Error& error) {
  Reply reply = error_reply(error);
  reply.status = 403;
  return reply;
}

// stream belongs to the caller, who awaits this.
template <class AnyStream>
asio::awaitable<void> serve_requests(AnyStream& stream, std::string actor, Door door, AdminLimits limits,
                                     std::function<AdminBackend*()> backend) {
  const asio::any_io_executor loop = stream.get_executor();
  beast::flat_buffer buffer(limits.header_bytes_max + std::size_t{4096});
  for (bool again = true; again;) {
    Parser parser;
    parser.header_limit(limits.header_bytes_max);
    parser.body_limit(door.body_bytes_max);
    const error_code error = co_await read_request(stream, buffer, parser, limits.request_timeout);
    if (error && deserves_reply(error)) {
      const Reply reply = reply_to_garbage(error, door, limits);
      const Shape shape;
      co_await write_reply(stream, reply, shape, limits.write_timeout);
      co_await drain(stream, buffer);
    }
    if (error) co_return;
    Shape shape = shape_of(parser);
    Call call = call_of(parser);
    call.actor = actor;
    call.backend = backend();
    call.loop = loop;
    call.answer_timeout = limits.answer_timeout;
    if (call.backend == nullptr) co_return;
    stream.expires_never();
    Reply reply;
    const Status allowed = door.allows ? door.allows() : Status();
    if (allowed) {
      reply = co_await door.answer(std::move(call));
    } else {
      reply = not_allowed(allowed.error());
      shape.keep_alive = false;
    }
    const error_code write_error = co_await write_reply(stream, reply, shape, limits.write_timeout);
    if (write_error) log_debug("admin: a reply to {} was cut: {}", actor, write_error.message());
    again = !write_error && shape.keep_alive;
  }
  finish(stream);
}

template <class Protocol>
asio::awaitable<void> serve_socket(typename Protocol::socket socket, std::string actor, Door door, AdminLimits limits,
                                   std::function<AdminBackend*()> backend) {
  co_await asio::this_coro::throw_if_cancelled(false);
  Stream<Protocol> stream(std::move(socket));
  co_await serve_requests(stream, std::move(actor), std::move(door), limits, std::move(backend));
}

}  // namespace

asio::awaitable<void> serve(asio::local::stream_protocol::socket socket, Door door, AdminLimits limits,
                            std::function<AdminBackend*()> backend) {
  std::string user = peer_user(socket.native_handle());
  return serve_socket<asio::local::stream_protocol>(std::move(socket), std::move(user), std::move(door), limits,
                                                    std::move(backend));
}

asio::awaitable<void> serve(asio::ip::tcp::socket socket, Door door, AdminLimits limits,
                            std::function<AdminBackend*()> backend) {
  return serve_socket<asio::ip::tcp>(std::move(socket), "anybody", std::move(door), limits, std::move(backend));
}

namespace {

// An IPv4 peer of a listener on [::] is shown as what it is.
std::string plain_address(const asio::ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address.to_string();
  return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
}

}  // namespace

asio::awaitable<void> serve_tls(asio::ip::tcp::socket socket, TlsDoor door, AdminLimits limits,
                                std::function<AdminBackend*()> backend) {
  co_await asio::this_coro::throw_if_cancelled(false);
  error_code ignored;
  const auto remote = socket.remote_endpoint(ignored);
  const std::string host = plain_address(remote.address());
  TlsStream stream(std::move(socket), door.context, to_text(host, remote.port()));
  stream.expires_after(limits.request_timeout);
  const auto [error] = co_await stream.async_handshake(kAsTuple);
  if (error) {
    const std::string why = error == beast::error::timeout ? "no TLS handshake in time" : error.message();
    door.trouble(host, stream.fault() ? *stream.fault() : Error(ErrorCode::retry, "peer: " + why));
    co_return;
  }
  const Result<PeerIdentity> peer = stream.peer();
  if (!peer) {
    door.trouble(host, peer.error());
    co_return;
  }
  const auto allows = [peer = *peer, host, door] {
    Status allowed = door.allows(peer);
    if (!allowed) door.trouble(host, allowed.error().within("peer"));
    return allowed;
  };
  std::string actor = fmt::format("{}@{}", peer->name, host);
  Door inner{answer_operator, limits.body_bytes_max, allows};
  co_await serve_requests(stream, std::move(actor), std::move(inner), limits, std::move(backend));
}

}  // namespace gleaner::admin
