#pragma once
// Ports of this machine, and the way to a coordinator up to a complete TLS handshake.

#include <cstdint>
#include <string>

#include "cli/doctor/findings.hpp"
#include "common/clock.hpp"
#include "protocol/link/tls_context.hpp"

namespace gleaner::cli {

// Whether the coordinator may listen there. in_use_is_fine: its own socket answers, so it is probably the one.
enum class InUse { fine, wrong };
void check_port(const std::string& what, const std::string& host, std::uint16_t port, InUse in_use, Findings& findings);

struct Way {
  std::string host;
  std::uint16_t port = 0;
  std::string server_name;  // that the coordinator's certificate must carry
  TlsFiles files;
  Duration timeout = std::chrono::seconds(5);  // for each step
};

// Name, TCP, TLS; stops at the first that fails. Sends no message, so that a running client is not superseded.
void check_way(const Way& way, Findings& findings);

}  // namespace gleaner::cli
