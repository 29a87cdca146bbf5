#include "protocol/link/identify.hpp"

#include <fmt/format.h>
#include <openssl/ssl.h>

#include "common/clock.hpp"
#include "common/ids.hpp"
#include "protocol/pki/read.hpp"

namespace gleaner {

Result<PeerIdentity> identify_peer(const TlsContext& context, const ssl_st* ssl, const std::string& address) {
  const pki::CertificateHandle certificate(SSL_get1_peer_certificate(ssl));
  if (!certificate) return fail(ErrorCode::peer_fault, address + ": it sent no certificate");
  const pki::CertificateFacts facts = pki::facts_of(certificate.get());
  const std::string what = fmt::format("{}: its certificate \"{}\"", address, facts.subject);
  const Status dates = pki::check_dates(facts, what, system_clock().wall_unix_ms() / 1000, pki::ClockShown::day);
  if (!dates) return fail(context.is_server() ? ErrorCode::peer_fault : ErrorCode::retry, dates.error().message());
  PeerIdentity peer{.serial = facts.serial, .not_after_unix_s = facts.not_after_unix_s};
  if (!context.is_server()) {
    peer.kind = PeerKind::coordinator;
    peer.name = context.server_name();
    return peer;
  }
  std::size_t found = 0;
  for (const std::string& uri : facts.uris) {
    const bool device = uri.starts_with(pki::kDeviceUrn);
    if (!device && !uri.starts_with(pki::kOperatorUrn)) continue;
    ++found;
    peer.kind = device ? PeerKind::device : PeerKind::operator_;
    peer.name = uri.substr(device ? pki::kDeviceUrn.size() : pki::kOperatorUrn.size());
  }
  if (found == 1 && is_valid_name(peer.name)) return peer;
  return fail(ErrorCode::peer_fault,
              fmt::format("{} names no device or operator: it needs exactly one {}NAME or {}NAME as a subject "
                          "alternative name, issued by `gleaner pki issue`",
                          what, pki::kDeviceUrn, pki::kOperatorUrn));
}

}  // namespace gleaner
