#include "protocol/pki/issue.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "common/ids.hpp"
#include "protocol/pki/file.hpp"
#include "protocol/pki/read.hpp"

namespace gleaner::pki {
namespace {

constexpr std::int64_t kBackDatedSeconds = 300;
constexpr std::int64_t kDaySeconds = 86'400;
constexpr long kVersion3 = 2;

Status openssl(bool ok, std::string_view doing) {
  if (ok) return {};
  return fail(ErrorCode::fatal, fmt::format("OpenSSL failed while {}: {}", doing, take_openssl_reason()));
}

bool is_ip(const std::string& text) {
  std::array<unsigned char, 16> address{};
  return inet_pton(AF_INET, text.c_str(), address.data()) == 1 ||
         inet_pton(AF_INET6, text.c_str(), address.data()) == 1;
}

bool is_dns_name(const std::string& text) {
  if (text.empty() || text.size() > 253 || text.front() == '.' || text.front() == '-') return false;
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
  });
}

Status set_random_serial(X509* certificate) {
  std::array<unsigned char, 16> bytes{};
  GLEANER_TRY(openssl(RAND_bytes(bytes.data(), bytes.size()) == 1, "drawing a serial number"));
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x3fU) | 0x40U);  // positive, and always 16 bytes
  return openssl(ASN1_STRING_set(X509_get_serialNumber(certificate), bytes.data(), bytes.size()) == 1,
                 "setting the serial number");
}

Status set_name(X509_NAME* name, const std::string& common_name) {
  return openssl(X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8,
                                            reinterpret_cast<const unsigned char*>(common_name.data()),
                                            static_cast<int>(common_name.size()), -1, 0) == 1,
                 "setting the name");
}

// value in the notation of OpenSSL's configuration; every part of it was checked before.
Status add_extension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context{};
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_nconf_nid(nullptr, &context, nid, value.c_str());
  const bool added = extension != nullptr && X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return openssl(added, "adding an extension");
}

struct Made {
  CertificateHandle certificate;
  KeyHandle key;
};

// Everything but issuer, extensions and signature.
Result<Made> begin_certificate(const std::string& name, const Validity& validity) {
  Made made{CertificateHandle(X509_new()), KeyHandle(EVP_EC_gen("P-256"))};
  GLEANER_TRY(openssl(made.certificate && made.key, "making a key"));
  X509* const certificate = made.certificate.get();
  GLEANER_TRY(openssl(X509_set_version(certificate, kVersion3) == 1 &&
                          ASN1_TIME_set(X509_getm_notBefore(certificate), validity.not_before_unix_s) != nullptr &&
                          ASN1_TIME_set(X509_getm_notAfter(certificate), validity.not_after_unix_s) != nullptr &&
                          X509_set_pubkey(certificate, made.key.get()) == 1,
                      "filling a certificate"));
  GLEANER_TRY(set_random_serial(certificate));
  GLEANER_TRY(set_name(X509_get_subject_name(certificate), name));
  return made;
}

Result<std::string> pem_of(const Made& made, bool want_key) {
  const BioHandle bio(BIO_new(BIO_s_mem()));
  const bool ok = bio && (want_key ? PEM_write_bio_PKCS8PrivateKey(bio.get(), made.key.get(), nullptr, nullptr, 0,
                                                                   nullptr, nullptr) == 1
                                   : PEM_write_bio_X509(bio.get(), made.certificate.get()) == 1);
  GLEANER_TRY(openssl(ok, "writing PEM"));
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<std::size_t>(size));
}

Status write_pair(const Made& made, const KeyFiles& out) {
  GLEANER_ASSIGN(const std::string key, pem_of(made, true));
  GLEANER_ASSIGN(const std::string certificate, pem_of(made, false));
  GLEANER_TRY(write_new_file(out.key, key, FileMode::secret));
  const Status status = write_new_file(out.certificate, certificate, FileMode::readable);
  if (!status) remove_file(out.key);  // a key without its certificate would block the next try
  return status;
}

Result<std::string> alternative_names(const CertificateRequest& request) {
  if (!is_valid_name(request.name)) {
    return fail(ErrorCode::bad_input, fmt::format("\"{}\" is no valid name: 1 to 64 characters from a-z, 0-9, '.', '_' "
                                                  "and '-', not beginning with '.' or '-'",
                                                  request.name));
  }
  if (request.role == Role::device) return fmt::format("URI:{}{}", kDeviceUrn, request.name);
  if (request.role == Role::operator_) return fmt::format("URI:{}{}", kOperatorUrn, request.name);
  std::string names;
  for (const std::string& address : request.addresses) {
    if (!is_ip(address) && !is_dns_name(address)) {
      return fail(ErrorCode::bad_input, fmt::format("\"{}\" is neither a DNS name nor an IP address", address));
    }
    names += fmt::format("{}{}:{}", names.empty() ? "" : ",", is_ip(address) ? "IP" : "DNS", address);
  }
  if (!names.empty()) return names;
  return fail(ErrorCode::bad_input,
              "a coordinator's certificate needs the DNS names or IP addresses that devices connect "
              "to: give at least one");
}

}  // namespace

Validity Validity::days(std::int64_t now_unix_s, std::int64_t days) {
  return {.not_before_unix_s = now_unix_s - kBackDatedSeconds, .not_after_unix_s = now_unix_s + days * kDaySeconds};
}

Status make_ca(const std::string& name, const Validity& validity, const KeyFiles& out) {
  if (name.empty() || name.size() > 64) {
    return fail(ErrorCode::bad_input, "the name of a CA has 1 to 64 bytes");
  }
  GLEANER_TRY(refuse_existing(out.key));
  GLEANER_TRY(refuse_existing(out.certificate));
  GLEANER_ASSIGN(const Made made, begin_certificate(name, validity));
  X509* const certificate = made.certificate.get();
  GLEANER_TRY(openssl(X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) == 1, "naming the issuer"));
  GLEANER_TRY(add_extension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  GLEANER_TRY(add_extension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign"));
  GLEANER_TRY(add_extension(certificate, certificate, NID_subject_key_identifier, "hash"));
  GLEANER_TRY(openssl(X509_sign(certificate, made.key.get(), EVP_sha256()) > 0, "signing"));
  return write_pair(made, out);
}

Status issue_certificate(const KeyFiles& ca, const CertificateRequest& request, const KeyFiles& out) {
  GLEANER_ASSIGN(const std::string names, alternative_names(request));
  GLEANER_TRY(refuse_existing(out.key));
  GLEANER_TRY(refuse_existing(out.certificate));
  GLEANER_TRY(check_key_matches(ca.certificate, ca.key));
  GLEANER_ASSIGN(const CertificateHandle issuer, read_certificate(ca.certificate));
  GLEANER_ASSIGN(const KeyHandle issuer_key, read_key(ca.key));
  const CertificateFacts facts = facts_of(issuer.get());
  if (!facts.is_ca) return fail(ErrorCode::bad_input, fmt::format("{}: not the certificate of a CA", ca.certificate));
  Validity validity = request.validity;
  validity.not_before_unix_s = std::max(validity.not_before_unix_s, facts.not_before_unix_s);
  validity.not_after_unix_s = std::min(validity.not_after_unix_s, facts.not_after_unix_s);
  if (validity.not_after_unix_s <= validity.not_before_unix_s) {
    return fail(ErrorCode::bad_input, fmt::format("{}: the CA is not valid in the wanted time; make a new CA with "
                                                  "`gleaner pki init`",
                                                  ca.certificate));
  }
  GLEANER_ASSIGN(const Made made, begin_certificate(request.name, validity));
  X509* const certificate = made.certificate.get();
  GLEANER_TRY(
      openssl(X509_set_issuer_name(certificate, X509_get_subject_name(issuer.get())) == 1, "naming the issuer"));
  GLEANER_TRY(add_extension(certificate, issuer.get(), NID_basic_constraints, "critical,CA:FALSE"));
  GLEANER_TRY(add_extension(certificate, issuer.get(), NID_key_usage, "critical,digitalSignature"));
  const std::string usage = request.role == Role::coordinator ? "serverAuth" : "clientAuth";
  GLEANER_TRY(add_extension(certificate, issuer.get(), NID_ext_key_usage, usage));
  GLEANER_TRY(add_extension(certificate, issuer.get(), NID_subject_key_identifier, "hash"));
  GLEANER_TRY(add_extension(certificate, issuer.get(), NID_authority_key_identifier, "keyid:always"));
  GLEANER_TRY(add_extension(certificate, issuer.get(), NID_subject_alt_name, names));
  GLEANER_TRY(openssl(X509_sign(certificate, issuer_key.get(), EVP_sha256()) > 0, "signing"));
  return write_pair(made, out);
}

}  // namespace gleaner::pki
