#pragma once
// TLS failures as one line for a person: which side, which file or peer, which check, what to do.

#include <cstdint>
#include <memory>
#include <string>

#include "common/error.hpp"
#include "protocol/link/tls_context.hpp"
#include "protocol/pki/certificate.hpp"

namespace gleaner {

// Why the far side's certificate was refused; filled in during the handshake.
struct VerifyFailure {
  int error = 0;  // X509_V_ERR_...
  int depth = 0;  // 0: the certificate itself; above: a CA
  pki::CertificateFacts facts;
};

struct TlsConnection {
  std::string server;  // host:port, the key of kept sessions; "" on a server
  std::unique_ptr<VerifyFailure> failure;
};

struct TlsFault {
  int ssl_error = 0;             // of SSL_get_error
  unsigned long queue_code = 0;  // of ERR_peek_last_error
  int system_error = 0;          // errno
};

// address: of the far side, as it was connected to or accepted from. On a server what the far side did wrong is
// peer_fault and what the network did is retry; on a client all is retry.
Error describe_tls_fault(const TlsContext& context, const TlsConnection& connection, const std::string& address,
                         const TlsFault& fault);

// True when the far side sent an alert: it says more than the broken connection that follows it.
bool is_alert(const TlsFault& fault);

}  // namespace gleaner
