#include "protocol/pki/certificate.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>

#include "common/clock.hpp"
#include "protocol/pki/read.hpp"

namespace gleaner::pki {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};
using FileHandle = std::unique_ptr<std::FILE, CloseFile>;
struct FreeOpenssl {
  void operator()(void* memory) const noexcept { OPENSSL_free(memory); }
};

Result<FileHandle> open_pem(const std::string& file, std::string_view what) {
  if (file.empty()) return fail(ErrorCode::bad_input, fmt::format("no file for the {} is configured", what));
  FileHandle handle(std::fopen(file.c_str(), "re"));
  if (handle) return handle;
  return fail(ErrorCode::bad_input, fmt::format("{}: the {} cannot be read: {}", file, what, std::strerror(errno)));
}

std::string name_of(const X509_NAME* name) {
  const int at = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
  if (at >= 0) {
    unsigned char* text = nullptr;
    const int size = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
    const std::unique_ptr<unsigned char, FreeOpenssl> owner(text);
    if (size >= 0) return {reinterpret_cast<const char*>(text), static_cast<std::size_t>(size)};
  }
  const std::unique_ptr<char, FreeOpenssl> line(X509_NAME_oneline(name, nullptr, 0));
  return line ? line.get() : "";
}

std::string serial_of(const X509* certificate) {
  const ASN1_INTEGER* const serial = X509_get0_serialNumber(certificate);
  std::string hex;
  for (int i = 0; i < ASN1_STRING_length(serial); ++i) hex += fmt::format("{:02x}", ASN1_STRING_get0_data(serial)[i]);
  return hex;
}

std::string text_of(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<std::size_t>(ASN1_STRING_length(text))};
}

std::string ip_of(const ASN1_OCTET_STRING* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = ASN1_STRING_length(address) == 4 ? AF_INET : AF_INET6;
  if (ASN1_STRING_length(address) != 4 && ASN1_STRING_length(address) != 16) return "?";
  return inet_ntop(family, ASN1_STRING_get0_data(address), text.data(), text.size());
}

void read_alternative_names(const X509* certificate, CertificateFacts& facts) {
  const GeneralNamesHandle names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_DNS) facts.dns.push_back(text_of(name->d.dNSName));
    if (name->type == GEN_URI) facts.uris.push_back(text_of(name->d.uniformResourceIdentifier));
    if (name->type == GEN_IPADD) facts.ips.push_back(ip_of(name->d.iPAddress));
  }
}

}  // namespace

std::string take_openssl_reason() {
  const unsigned long code = ERR_peek_last_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return reason == nullptr ? "unknown" : reason;
}

std::int64_t unix_seconds(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? std::int64_t{timegm(&parts)} : 0;
}

Result<CertificateHandle> read_certificate(const std::string& file) {
  GLEANER_ASSIGN(const FileHandle handle, open_pem(file, "certificate"));
  CertificateHandle certificate(PEM_read_X509(handle.get(), nullptr, nullptr, nullptr));
  if (certificate) return certificate;
  ERR_clear_error();
  return fail(ErrorCode::bad_input, fmt::format("{}: no certificate in PEM form (-----BEGIN CERTIFICATE-----)", file));
}

Result<KeyHandle> read_key(const std::string& file) {
  GLEANER_ASSIGN(const FileHandle handle, open_pem(file, "private key"));
  // No passphrase is ever asked for: a daemon has nobody to ask.
  const auto no_passphrase = [](char*, int, int, void*) { return -1; };
  KeyHandle key(PEM_read_PrivateKey(handle.get(), nullptr, no_passphrase, nullptr));
  if (key) return key;
  ERR_clear_error();
  return fail(ErrorCode::bad_input,
              fmt::format("{}: no private key in PEM form without a passphrase (-----BEGIN PRIVATE KEY-----)", file));
}

CertificateFacts facts_of(X509* certificate) {
  CertificateFacts facts;
  facts.subject = name_of(X509_get_subject_name(certificate));
  facts.issuer = name_of(X509_get_issuer_name(certificate));
  facts.serial = serial_of(certificate);
  facts.is_ca = X509_check_ca(certificate) == 1;
  read_alternative_names(certificate, facts);
  facts.not_before_unix_s = unix_seconds(X509_get0_notBefore(certificate));
  facts.not_after_unix_s = unix_seconds(X509_get0_notAfter(certificate));
  return facts;
}

Result<CertificateFacts> inspect(const std::string& certificate_file) {
  GLEANER_ASSIGN(const CertificateHandle certificate, read_certificate(certificate_file));
  return facts_of(certificate.get());
}

Status check_key_matches(const std::string& certificate_file, const std::string& key_file) {
  GLEANER_ASSIGN(const CertificateHandle certificate, read_certificate(certificate_file));
  GLEANER_ASSIGN(const KeyHandle key, read_key(key_file));
  const int matches = X509_check_private_key(certificate.get(), key.get());
  ERR_clear_error();
  if (matches == 1) return {};
  return fail(ErrorCode::bad_input,
              fmt::format("{}: this private key does not belong to the certificate {}; give the key that was issued "
                          "together with it",
                          key_file, certificate_file));
}

Status check_issued_by(const std::string& certificate_file, const std::string& ca_file) {
  GLEANER_ASSIGN(const FileHandle handle, open_pem(certificate_file, "certificate"));
  GLEANER_ASSIGN(const CertificateHandle certificate, read_certificate(certificate_file));
  GLEANER_ASSIGN([[maybe_unused]] const CertificateHandle first, read_certificate(ca_file));
  // Behind the certificate a file may hold the CAs between it and ours.
  const ChainHandle chain(sk_X509_new_null());
  while (X509* next = PEM_read_X509(handle.get(), nullptr, nullptr, nullptr)) sk_X509_push(chain.get(), next);
  ERR_clear_error();
  const StoreHandle store(X509_STORE_new());
  const StoreContextHandle context(X509_STORE_CTX_new());
  if (!chain || !store || !context || X509_STORE_load_file(store.get(), ca_file.c_str()) != 1 ||
      X509_STORE_set_flags(store.get(), X509_V_FLAG_NO_CHECK_TIME) != 1 ||
      X509_STORE_CTX_init(context.get(), store.get(), certificate.get(), chain.get()) != 1) {
    return fail(ErrorCode::bad_input,
                fmt::format("{}: cannot be used as a list of CAs: {}", ca_file, take_openssl_reason()));
  }
  const int verified = X509_verify_cert(context.get());
  ERR_clear_error();
  if (verified == 1) return {};
  return fail(
      ErrorCode::bad_input,
      fmt::format("{}: not issued by a CA of {} ({}); it names \"{}\" as its issuer. Give the CA that issued it",
                  certificate_file, ca_file, X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get())),
                  name_of(X509_get_issuer_name(certificate.get()))));
}

std::string day_of(std::int64_t unix_s) { return to_iso8601(unix_s * 1000).substr(0, 10); }

Status check_dates(const CertificateFacts& facts, std::string_view what, std::int64_t now_unix_s, ClockShown shown) {
  const auto date = [](std::int64_t unix_s) { return to_iso8601(unix_s * 1000); };
  const std::string clock = shown == ClockShown::day ? day_of(now_unix_s) : date(now_unix_s);
  if (now_unix_s < facts.not_before_unix_s) {
    return fail(ErrorCode::retry,
                fmt::format("{} is not valid before {}, and this machine's clock says {}: set the clock", what,
                            date(facts.not_before_unix_s), clock));
  }
  if (now_unix_s > facts.not_after_unix_s) {
    return fail(ErrorCode::bad_input,
                fmt::format("{} expired at {} (this machine's clock says {}): issue a new one with `gleaner pki issue`",
                            what, date(facts.not_after_unix_s), clock));
  }
  return {};
}

}  // namespace gleaner::pki
