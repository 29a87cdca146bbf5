#pragma once
// A private CA: ECDSA P-256, random serial numbers, dates from five minutes back. Files are written whole or not at
// all, keys with mode 0600, and an existing file is never overwritten (conflict).

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.hpp"

namespace gleaner::pki {

struct KeyFiles {
  std::string certificate;
  std::string key;
};

struct Validity {
  std::int64_t not_before_unix_s = 0;
  std::int64_t not_after_unix_s = 0;

  // From five minutes before now, since clocks differ, until days from now.
  static Validity days(std::int64_t now_unix_s, std::int64_t days);
};

enum class Role { device, operator_, coordinator };

struct CertificateRequest {
  Role role = Role::device;
  std::string name;                    // is_valid_name; of a device or operator, who it is
  std::vector<std::string> addresses;  // of a coordinator: DNS names, IPv4 and IPv6 addresses, at least one
  Validity validity;                   // cut to the CA's
};

Status make_ca(const std::string& name, const Validity& validity, const KeyFiles& out);
Status issue_certificate(const KeyFiles& ca, const CertificateRequest& request, const KeyFiles& out);

}  // namespace gleaner::pki
