#pragma once
// Who is at the far side of a TLS connection, from its certificate. For link_open.cpp and for whoever speaks something
// else than frames over the same certificates.

#include <string>

#include "common/error.hpp"
#include "protocol/link/tls_context.hpp"

namespace gleaner {

// After the handshake. On a server a device or an operator by the one URN that its certificate carries, on a client the
// coordinator that was asked for. The dates are checked again: a resumed session brings the certificate of the first
// one. address: of the far side, for messages. Errors: peer_fault on a server, retry on a client.
Result<PeerIdentity> identify_peer(const TlsContext& context, const ssl_st* ssl, const std::string& address);

}  // namespace gleaner
