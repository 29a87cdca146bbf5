#pragma once
// The other end of the operator's socket or TLS port, for the command line tool: one request after the other, each in
// its own time. Blocking; one thread.

#include <functional>
#include <memory>
#include <string>

#include "common/bytes.hpp"
#include "common/clock.hpp"
#include "common/error.hpp"

namespace gleaner {

// A coordinator on another machine: its admin.tls, and an operator's certificate.
struct RemoteCoordinator {
  std::string host;
  std::uint16_t port = 0;
  std::string ca, certificate, key;  // PEM files
};

struct AdminClientLimits {
  Duration connect_timeout = std::chrono::seconds(5);
  Duration answer_timeout = std::chrono::minutes(11);   // a little longer than the server gives its backend
  Duration silence_timeout = std::chrono::seconds(60);  // between two pieces of a download
  std::uint64_t body_bytes_max = 256U << 20;
};

class AdminClient {
 public:
  // Errors: every one means that the coordinator cannot be reached, and says what to do. Over TLS a certificate that
  // the coordinator does not accept is the error of the first request.
  static Result<AdminClient> connect(const std::string& socket, const AdminClientLimits& limits = {});
  // Errors: also bad_input, for the own files.
  static Result<AdminClient> connect(const RemoteCoordinator& remote, const AdminClientLimits& limits = {});
  AdminClient(AdminClient&& other) noexcept;
  AdminClient& operator=(AdminClient&&) = delete;
  ~AdminClient();

  // The reply's body. Errors: the coordinator's own, with its code; retry when the connection broke.
  Result<std::string> get(const std::string& target);
  Result<std::string> post(const std::string& target, const std::string& body = {});

  // The reply's body in pieces, each gone when sink returns; total is the whole body's length. Ends at sink's error.
  using Sink = std::function<Status(ByteView piece, std::uint64_t total_bytes)>;
  Status download(const std::string& target, const Sink& sink);

 private:
  class Connection;
  explicit AdminClient(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

}  // namespace gleaner
