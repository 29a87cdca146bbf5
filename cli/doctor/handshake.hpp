#pragma once
// A TLS handshake as a device, up to the coordinator's judgement of our certificate, with the link's words for what
// fails.

#include "cli/doctor/network.hpp"

namespace gleaner::cli {

// socket: connected; stays open. Errors: those of TlsContext and describe_tls_fault.
Status try_handshake(int socket, const Way& way);

}  // namespace gleaner::cli
