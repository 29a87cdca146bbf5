#pragma once
// Certificates, key and rules of one side of a TLS 1.3 connection with mutual authentication. A cheap handle that may
// be copied and used by any thread. To reload, make a new one: links keep the one they began with.

#include <cstdint>
#include <memory>
#include <string>

#include "common/error.hpp"
#include "protocol/pki/certificate.hpp"

struct ssl_ctx_st;
struct ssl_st;

namespace gleaner {

struct TlsFiles {  // paths of PEM files
  std::string ca;  // one or several: overlapping CAs
  std::string certificate;
  std::string key;
};

enum class PeerKind { device, operator_, coordinator };

struct PeerIdentity {
  PeerKind kind = PeerKind::device;
  std::string name;    // of a coordinator: the DNS name or address that was checked
  std::string serial;  // of its certificate, hexadecimal
  std::int64_t not_after_unix_s = 0;
};

// How the rest of a connection finds what belongs to it; used by Link.
struct TlsConnection;

class TlsContext {
 public:
  // Errors: bad_input with the file, the check that failed and what to do; retry when the own certificate is not valid
  // yet, since the clock may not be set.
  static Result<TlsContext> make_server(const TlsFiles& files);
  // server_name: the DNS name or IP address that the coordinator's certificate must carry.
  static Result<TlsContext> make_client(const TlsFiles& files, const std::string& server_name);

  bool is_server() const;
  const std::string& server_name() const;  // "" for a server
  const TlsFiles& files() const;
  const pki::CertificateFacts& own_certificate() const;
  ssl_ctx_st* native() const;  // lives as long as this or a copy

  // A connection object on the descriptor, ready for its handshake; on a client with the session kept for
  // connection.server, if there is one. connection must outlive it. Null when memory or the descriptor fails.
  ssl_st* new_connection(int descriptor, TlsConnection& connection) const;

  struct State;

 private:
  explicit TlsContext(std::shared_ptr<State> state) : state_(std::move(state)) {}
  static Result<TlsContext> make(const TlsFiles& files, const std::string& server_name);

  std::shared_ptr<State> state_;
};

}  // namespace gleaner
