#pragma once
// A certificate, its key and its authority, as one side of a connection needs them.

#include <cstdint>
#include <string>

#include "cli/doctor/findings.hpp"
#include "protocol/link/tls_context.hpp"
#include "protocol/pki/certificate.hpp"

namespace gleaner::cli {

// listen_host: as configured, may be a wildcard; machine_name: what this machine calls itself.
struct CoordinatorNames {
  std::string listen_host;
  std::string machine_name;
};

void check_coordinator_certificate(const TlsFiles& files, const CoordinatorNames& names, std::int64_t now_unix_s,
                                   Findings& findings);
void check_device_certificate(const TlsFiles& files, std::int64_t now_unix_s, Findings& findings);

}  // namespace gleaner::cli
