#include "protocol/link/tls_error.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cstring>
#include <string_view>
#include <vector>

#include "common/clock.hpp"
#include "common/text.hpp"

namespace gleaner {
namespace {

// A TLS alert from the far side is SSL_R 1000 + its number (RFC 8446, section 6).
constexpr int kAlertReason = 1000;

std::string date(std::int64_t unix_s) { return to_iso8601(unix_s * 1000); }
// To the day: a line that says the seconds would be another one at every try, and never a repetition.
std::string today() { return pki::day_of(system_clock().wall_unix_ms() / 1000); }

std::string names_in(const pki::CertificateFacts& facts) {
  std::vector<std::string> names = facts.dns;
  names.insert(names.end(), facts.ips.begin(), facts.ips.end());
  names.insert(names.end(), facts.uris.begin(), facts.uris.end());
  return names.empty() ? "nobody" : join_names(names);
}

// What we found wrong with the far side's certificate.
std::string refused_by_us(const TlsContext& context, const VerifyFailure& failure) {
  const pki::CertificateFacts& facts = failure.facts;
  const std::string which = failure.depth == 0 ? fmt::format("its certificate \"{}\"", facts.subject)
                                               : fmt::format("the CA \"{}\" of its certificate", facts.subject);
  switch (failure.error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return fmt::format("{} expired at {} (this machine's clock says {}): it needs a new one", which,
                         date(facts.not_after_unix_s), today());
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return fmt::format(
          "{} is not valid before {}, and this machine's clock says {}: check the clocks of both machines", which,
          date(facts.not_before_unix_s), today());
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return fmt::format("{} is for {}, not for {}: connect by a name that it carries, or issue it for this one too",
                         which, names_in(facts), context.server_name());
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return fmt::format(
          "{}, issued by \"{}\", comes from an unknown CA: none of {} issued it. Both sides need the same CA", which,
          facts.issuer, context.files().ca);
    case X509_V_ERR_INVALID_PURPOSE:
      return fmt::format("{} is not meant for a {}: issue one that is", which,
                         context.is_server() ? "device or operator" : "coordinator");
    default: return fmt::format("{} is refused: {}", which, X509_verify_cert_error_string(failure.error));
  }
}

// What the far side says that it found wrong with us.
std::string refused_by_far_side(const TlsContext& context, int alert) {
  const std::string ours = fmt::format("it refused our certificate {}: ", context.files().certificate);
  switch (alert) {
    case SSL_AD_UNKNOWN_CA:
      return ours +
             fmt::format("unknown CA; is it issued by the {}'s CA?", context.is_server() ? "device" : "coordinator");
    case SSL_AD_CERTIFICATE_EXPIRED:
      return ours + fmt::format("expired (it is valid until {}): issue a new one, or check the far side's clock",
                                date(context.own_certificate().not_after_unix_s));
    case SSL_AD_CERTIFICATE_REVOKED: return ours + "revoked";
    case SSL_AD_BAD_CERTIFICATE:
      return ours + fmt::format(
                        "not valid yet by its clock, or not for the name that it knows us by (ours is for {}, "
                        "valid from {})",
                        names_in(context.own_certificate()), date(context.own_certificate().not_before_unix_s));
    case SSL_AD_UNSUPPORTED_CERTIFICATE: return ours + "not meant for this side of a connection";
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_ACCESS_DENIED: return ours + "it is not accepted";
    case SSL_AD_CERTIFICATE_REQUIRED: return "it wants a certificate and got none: configure certificate and key";
    case SSL_AD_PROTOCOL_VERSION: return "it does not speak TLS 1.3: update it, or check that the port is right";
    case SSL_AD_HANDSHAKE_FAILURE:
    case SSL_AD_INSUFFICIENT_SECURITY: return "it shares no cipher or key exchange with us: update it";
    case SSL_AD_DECRYPT_ERROR: return "it could not check our signature: does our key belong to our certificate?";
    default: return fmt::format("it ended the connection with the TLS alert \"{}\"", SSL_alert_desc_string_long(alert));
  }
}

bool looks_like_plain_text(int reason) {
  switch (reason) {
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_BAD_RECORD_TYPE:
    case SSL_R_RECORD_LENGTH_MISMATCH:
    case SSL_R_LENGTH_TOO_SHORT:
    case SSL_R_UNEXPECTED_MESSAGE: return true;
    default: return false;
  }
}

std::string describe_reason(const TlsContext& context, const TlsConnection& connection, int reason) {
  if (reason > kAlertReason) return refused_by_far_side(context, reason - kAlertReason);
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && connection.failure) {
    return refused_by_us(context, *connection.failure);
  }
  if (looks_like_plain_text(reason)) {
    return context.is_server() ? "it does not speak TLS (a plain-text client or a port scan?)"
                               : "it does not speak TLS: is this the coordinator's port?";
  }
  switch (reason) {
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return "it sent no certificate: configure certificate and key on that side";
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_UNKNOWN_PROTOCOL: return "it does not speak TLS 1.3: update it, or check that the port is right";
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_KEY_SHARE: return "it shares no cipher or key exchange with us: update it";
    case SSL_R_UNEXPECTED_EOF_WHILE_READING: return "it closed the connection without a word";
    default: break;
  }
  const char* const text = ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, reason));
  return fmt::format("TLS failed: {}", text == nullptr ? "unknown reason" : text);
}

}  // namespace

bool is_alert(const TlsFault& fault) {
  return fault.ssl_error == SSL_ERROR_SSL && ERR_GET_REASON(fault.queue_code) > kAlertReason;
}

Error describe_tls_fault(const TlsContext& context, const TlsConnection& connection, const std::string& address,
                         const TlsFault& fault) {
  const std::string who = fmt::format("{} at {}", context.is_server() ? "peer" : "coordinator", address);
  if (fault.ssl_error == SSL_ERROR_SSL && fault.queue_code != 0) {
    const int reason = ERR_GET_REASON(fault.queue_code);
    const bool fault_of_peer = context.is_server() && reason != SSL_R_UNEXPECTED_EOF_WHILE_READING;
    return {fault_of_peer ? ErrorCode::peer_fault : ErrorCode::retry,
            fmt::format("{}: {}", who, describe_reason(context, connection, reason))};
  }
  if (fault.system_error != 0) {
    return {ErrorCode::retry, fmt::format("{}: the connection broke: {}", who, std::strerror(fault.system_error))};
  }
  return {ErrorCode::retry, fmt::format("{}: it closed the connection without a word", who)};
}

}  // namespace gleaner
