#include "coordinator/admin/client.hpp"

#include <fmt/format.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/json.hpp>
#include <optional>
#include <utility>

#include "coordinator/admin/codes.hpp"
#include "coordinator/admin/tls_stream.hpp"
#include "coordinator/admin/unix_socket.hpp"
#include "protocol/link/host_port.hpp"

namespace gleaner {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace json = boost::json;
using asio::ip::tcp;
using asio::local::stream_protocol;
using boost::system::error_code;

constexpr std::size_t kPieceBytes = 1U << 20;
constexpr std::uint32_t kHeaderBytesMax = 64U << 10;
constexpr std::string_view kHowToStart =
    "is it running? Start it with `gleaner-coordinator serve --config FILE`, or name its socket with --socket PATH or "
    "its file with --config FILE";

Error broken(const error_code& error) {
  if (error == beast::error::timeout) {
    return {ErrorCode::retry, "the coordinator did not answer in time; it may still be at it"};
  }
  return {ErrorCode::retry, fmt::format("the connection to the coordinator broke: {}", error.message())};
}

// What a reply without success says: {"code": ..., "message": ...}.
Error error_in(unsigned status, const std::string& body) {
  error_code failed;
  const json::value value = json::parse(body, failed);
  const json::object* object = failed ? nullptr : value.if_object();
  const json::value* code = object != nullptr ? object->if_contains("code") : nullptr;
  const json::value* message = object != nullptr ? object->if_contains("message") : nullptr;
  if (code == nullptr || message == nullptr || !code->is_string() || !message->is_string()) {
    return {ErrorCode::fatal, fmt::format("the coordinator answered with HTTP status {}", status)};
  }
  const auto& name = code->get_string();
  return {admin::code_named(std::string_view(name.data(), name.size())), std::string(message->get_string())};
}

}  // namespace

class AdminClient::Connection {
 public:
  explicit Connection(const AdminClientLimits& limits) : limits_(limits), stream_(loop_) {}

  error_code open(const std::string& path) {
    stream_.expires_after(limits_.connect_timeout);
    return run([&](auto done) { stream_.async_connect(stream_protocol::endpoint(path), done); });
  }

  Status open(const RemoteCoordinator& to) {
    GLEANER_ASSIGN(auto context, TlsContext::make_client({to.ca, to.certificate, to.key}, to.host));
    const std::string address = to_text(to.host, to.port);
    const auto unreachable = [&address](const error_code& error) {
      return fail(ErrorCode::retry, fmt::format("cannot reach the coordinator at {}: {}; is admin.tls in its file, and "
                                                "is this its port?",
                                                address, error.message()));
    };
    error_code error;
    tcp::resolver resolver(loop_);
    const auto endpoints = resolver.resolve(to.host, std::to_string(to.port), tcp::resolver::numeric_service, error);
    if (error) return unreachable(error);
    beast::basic_stream<tcp, asio::any_io_executor> socket(loop_);
    socket.expires_after(limits_.connect_timeout);
    error = run([&](auto done) {
      socket.async_connect(endpoints, [done](const error_code& e, const tcp::endpoint&) { done(e); });
    });
    if (error) return unreachable(error);
    remote_.emplace(socket.release_socket(), std::move(context), address);
    remote_->expires_after(limits_.connect_timeout);
    error = run([&](auto done) { remote_->async_handshake(done); });
    if (error && remote_->fault()) return fail(*remote_->fault());
    if (error) return unreachable(error);
    return {};
  }

  Status send(http::verb method, const std::string& target, const std::string& body) {
    http::request<http::string_body> request(method, target, 11);
    request.set(http::field::host, "gleaner");
    request.set(http::field::accept, "application/json");
    request.body() = body;
    request.prepare_payload();
    const error_code error = run_on_stream(limits_.answer_timeout, [&](auto& stream, auto done) {
      http::async_write(stream, request, [done](const error_code& e, std::size_t) { done(e); });
    });
    // A server that refuses the head of a request answers before it has read the rest.
    if (error && error != asio::error::broken_pipe) return fail(reason(error));
    return {};
  }

  template <class Parser>
  Status read_header(Parser& parser) {
    parser.header_limit(kHeaderBytesMax);
    return read([&](auto& stream, auto done) { http::async_read_header(stream, buffer_, parser, done); });
  }

  template <class Parser>
  Status read_body(Parser& parser) {
    return read([&](auto& stream, auto done) { http::async_read(stream, buffer_, parser, done); });
  }

  Status read_pieces(http::response_parser<http::buffer_body>& parser, const Sink& sink) {
    std::vector<std::byte> piece(kPieceBytes);
    const std::uint64_t total = parser.content_length().value_or(0);
    while (!parser.is_done()) {
      parser.get().body().data = piece.data();
      parser.get().body().size = piece.size();
      const error_code error = run_on_stream(limits_.silence_timeout, [&](auto& stream, auto done) {
        http::async_read(stream, buffer_, parser, [done](const error_code& e, std::size_t) { done(e); });
      });
      if (error && error != http::error::need_buffer) return fail(reason(error));
      const std::size_t size = piece.size() - parser.get().body().size;
      GLEANER_TRY(sink(ByteView(piece).first(size), total));
    }
    return {};
  }

  const AdminClientLimits& limits() const { return limits_; }

 private:
  // Begins an operation whose handler is done(error), and waits for it; its time-out is the stream's.
  template <class Begin>
  error_code run(Begin begin) {
    error_code outcome = asio::error::operation_aborted;
    // The loop may hold a time-out that is far away.
    begin([this, &outcome](const error_code& error) {
      outcome = error;
      loop_.stop();
    });
    loop_.restart();
    loop_.run();
    return outcome;
  }
  template <class Begin>
  error_code run_on_stream(Duration timeout, Begin begin) {
    if (remote_) {
      remote_->expires_after(timeout);
      const error_code error = run([&](auto done) { begin(*remote_, done); });
      remote_->expires_never();
      return error;
    }
    stream_.expires_after(timeout);
    return run([&](auto done) { begin(stream_, done); });
  }
  template <class Begin>
  Status read(Begin begin) {
    const error_code error = run_on_stream(limits_.answer_timeout, [&](auto& stream, auto done) {
      begin(stream, [done](const error_code& e, std::size_t) { done(e); });
    });
    return error ? Status(fail(reason(error))) : Status();
  }
  // TLS knows more than the socket: a certificate that was refused, for one.
  Error reason(const error_code& error) const {
    return remote_ && remote_->fault() ? *remote_->fault() : broken(error);
  }

  const AdminClientLimits limits_;
  asio::io_context loop_{1};
  beast::basic_stream<stream_protocol> stream_;
  std::optional<admin::TlsStream> remote_;  // instead
  beast::flat_buffer buffer_;
};

Result<AdminClient> AdminClient::connect(const std::string& socket, const AdminClientLimits& limits) {
  const auto state = admin::probe_socket(socket);
  if (!state) return fail(state.error().within("cannot reach the coordinator"));
  if (*state != admin::SocketState::answers) {
    const char* why = *state == admin::SocketState::absent ? "there is no socket" : "nobody answers on the socket";
    return fail(ErrorCode::retry, fmt::format("cannot reach the coordinator: {} {}; {}", why, socket, kHowToStart));
  }
  auto connection = std::make_unique<Connection>(limits);
  if (const error_code error = connection->open(socket)) {
    return fail(ErrorCode::retry, fmt::format("cannot reach the coordinator: the socket {}: {}; {}", socket,
                                              error.message(), kHowToStart));
  }
  return AdminClient(std::move(connection));
}

Result<AdminClient> AdminClient::connect(const RemoteCoordinator& remote, const AdminClientLimits& limits) {
  auto connection = std::make_unique<Connection>(limits);
  GLEANER_TRY(connection->open(remote));
  return AdminClient(std::move(connection));
}

AdminClient::AdminClient(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
AdminClient::AdminClient(AdminClient&& other) noexcept = default;
AdminClient::~AdminClient() = default;

namespace {

template <class Connection>
Result<std::string> exchange(Connection& connection, http::verb method, const std::string& target,
                             const std::string& body) {
  GLEANER_TRY(connection.send(method, target, body));
  http::response_parser<http::string_body> parser;
  parser.body_limit(connection.limits().body_bytes_max);
  GLEANER_TRY(connection.read_body(parser));
  const unsigned status = parser.get().result_int();
  if (status >= 300) return fail(error_in(status, parser.get().body()));
  return std::move(parser.get().body());
}

}  // namespace

Result<std::string> AdminClient::get(const std::string& target) {
  return exchange(*connection_, http::verb::get, target, {});
}

Result<std::string> AdminClient::post(const std::string& target, const std::string& body) {
  return exchange(*connection_, http::verb::post, target, body);
}

Status AdminClient::download(const std::string& target, const Sink& sink) {
  GLEANER_TRY(connection_->send(http::verb::get, target, {}));
  http::response_parser<http::empty_body> head;
  GLEANER_TRY(connection_->read_header(head));
  const unsigned status = head.get().result_int();
  if (status >= 300) {
    http::response_parser<http::string_body> parser(std::move(head));
    parser.body_limit(connection_->limits().body_bytes_max);
    GLEANER_TRY(connection_->read_body(parser));
    return fail(error_in(status, parser.get().body()));
  }
  http::response_parser<http::buffer_body> parser(std::move(head));
  parser.body_limit(boost::none);
  return connection_->read_pieces(parser, sink);
}

}  // namespace gleaner
