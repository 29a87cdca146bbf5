#pragma once
// Reading certificates and keys, for protocol/pki and protocol/link only.

#include <string>

#include "common/error.hpp"
#include "protocol/pki/certificate.hpp"
#include "protocol/pki/handles.hpp"

namespace gleaner::pki {

// Errors: bad_input, with the file and what would help.
Result<CertificateHandle> read_certificate(const std::string& file);
Result<KeyHandle> read_key(const std::string& file);

// certificate is not null.
CertificateFacts facts_of(X509* certificate);

// 0 for what is not a time.
std::int64_t unix_seconds(const ASN1_TIME* time);

}  // namespace gleaner::pki
