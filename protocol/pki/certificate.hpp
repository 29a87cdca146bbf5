#pragma once
// What stands in a certificate, for `gleaner pki`, `gleaner doctor` and the link. No OpenSSL types.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace gleaner::pki {

inline constexpr std::string_view kDeviceUrn = "urn:gleaner:device:";
inline constexpr std::string_view kOperatorUrn = "urn:gleaner:operator:";

struct CertificateFacts {
  std::string subject;  // the common name, or the whole name where there is none
  std::string issuer;
  std::string serial;  // lower-case hexadecimal
  bool is_ca = false;
  std::vector<std::string> dns;
  std::vector<std::string> ips;  // "192.0.2.1", "2001:db8::1"
  std::vector<std::string> uris;
  std::int64_t not_before_unix_s = 0;
  std::int64_t not_after_unix_s = 0;
};

// The first certificate in a PEM file. Errors: bad_input, with the file and what would help.
Result<CertificateFacts> inspect(const std::string& certificate_file);

// Ok when the key belongs to the certificate. Errors: bad_input, with both files.
Status check_key_matches(const std::string& certificate_file, const std::string& key_file);

// Ok when a certificate of the CA file signed the certificate (its dates are not looked at).
Status check_issued_by(const std::string& certificate_file, const std::string& ca_file);

// How exactly a message tells this machine's clock: a line that is said at every try tells the day, so that it stays
// the same line.
enum class ClockShown { second, day };

// Ok when now lies within the certificate's dates. what: how it is called in the message. Expired is bad_input; not yet
// valid is retry, since the likely cause is a clock that is not set yet.
Status check_dates(const CertificateFacts& facts, std::string_view what, std::int64_t now_unix_s,
                   ClockShown shown = ClockShown::second);

// "2026-02-28"
std::string day_of(std::int64_t unix_s);

}  // namespace gleaner::pki
