#include "cli/doctor/handshake.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>

#include <cerrno>
#include <memory>

#include "protocol/link/host_port.hpp"
#include "protocol/link/tls_error.hpp"

namespace gleaner::cli {
namespace {

using Clock = std::chrono::steady_clock;

// In TLS 1.3 the server judges our certificate after our half is done; its refusal comes within a round trip or two.
constexpr std::chrono::milliseconds kJudgementMin{500};

struct FreeSsl {
  void operator()(ssl_st* ssl) const noexcept { SSL_free(ssl); }
};
using Ssl = std::unique_ptr<ssl_st, FreeSsl>;

// Repeats step until it succeeds (1), fails for good, or the time is over (0, with a fault of the system).
struct Outcome {
  bool done = false;
  bool timed_out = false;
  TlsFault fault;
};

template <class Step>
Outcome repeat(SSL* ssl, int socket, Clock::time_point deadline, Step step) {
  while (true) {
    ERR_clear_error();
    errno = 0;
    const int result = step();
    if (result > 0) return {.done = true};
    const int error = SSL_get_error(ssl, result);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
      return {.fault = {error, ERR_peek_last_error(), errno}};
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd waiting{socket, static_cast<short>(error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT), 0};
    if (left <= 0 || ::poll(&waiting, 1, static_cast<int>(left)) == 0) return {.timed_out = true};
  }
}

}  // namespace

Status try_handshake(int socket, const Way& way) {
  GLEANER_ASSIGN(const TlsContext context, TlsContext::make_client(way.files, way.server_name));
  const std::string address = to_text(way.host, way.port);
  TlsConnection connection;
  connection.server = address;
  const Ssl ssl(context.new_connection(socket, connection));
  if (!ssl) return fail(ErrorCode::fatal, "no TLS connection can be made: out of memory");
  const auto began = Clock::now();
  const Outcome shaken = repeat(ssl.get(), socket, began + way.timeout, [&] { return SSL_do_handshake(ssl.get()); });
  if (shaken.timed_out) {
    return fail(ErrorCode::retry, fmt::format("{} accepts connections but does not answer the TLS handshake: is it the "
                                              "coordinator's port?",
                                              address));
  }
  if (!shaken.done) return fail(describe_tls_fault(context, connection, address, shaken.fault));
  const auto judgement = std::max<Clock::duration>(kJudgementMin, 3 * (Clock::now() - began));
  char byte = 0;
  const Outcome judged =
      repeat(ssl.get(), socket, Clock::now() + judgement, [&] { return SSL_peek(ssl.get(), &byte, 1); });
  if (judged.done || judged.timed_out) return {};
  return fail(describe_tls_fault(context, connection, address, judged.fault));
}

}  // namespace gleaner::cli
