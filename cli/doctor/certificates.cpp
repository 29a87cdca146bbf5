#include "cli/doctor/certificates.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "cli/table.hpp"
#include "common/ids.hpp"

namespace gleaner::cli {
namespace {

constexpr std::int64_t kDay = 86'400;
constexpr std::int64_t kSoon = 30 * kDay;

void check_dates(const std::string& what, const pki::CertificateFacts& facts, std::int64_t now_unix_s,
                 Findings& findings) {
  if (const Status valid = pki::check_dates(facts, what, now_unix_s); !valid) {
    const bool early = now_unix_s < facts.not_before_unix_s;
    return findings.fail(valid.error().message(),
                         early ? "set this machine's clock, or wait" : "issue a new one with `gleaner pki issue`");
  }
  const std::int64_t left_s = facts.not_after_unix_s - now_unix_s;
  const std::string text = fmt::format("{} is valid for another {}", what, human_span(static_cast<double>(left_s)));
  if (left_s < kSoon) return findings.warn(text, "issue a new one soon, and send the service SIGHUP");
  findings.ok(text);
}

void check_key_mode(const std::string& key, Findings& findings) {
  struct stat status{};
  if (::stat(key.c_str(), &status) != 0) return;  // that it cannot be read is said elsewhere
  const unsigned mode = status.st_mode & 0777U;
  if ((mode & 0077U) != 0) {
    return findings.warn(fmt::format("{} can be read by others (mode {:04o})", key, mode), "chmod 600 it");
  }
  findings.ok(fmt::format("{} is readable by its owner only", key));
}

// What both sides need. The facts when the certificate could be read.
std::optional<pki::CertificateFacts> check_files(const TlsFiles& files, std::int64_t now_unix_s, Findings& findings) {
  if (const auto ca = pki::inspect(files.ca); !ca) {
    findings.fail(ca.error());
  } else {
    if (!ca->is_ca) {
      findings.fail(
          fmt::format("the CA file {} holds the certificate of {}, which is no authority", files.ca, ca->subject),
          "name the authority's certificate, the ca.pem of `gleaner pki init`");
    }
    check_dates(fmt::format("the CA {}", files.ca), *ca, now_unix_s, findings);
  }
  auto facts = pki::inspect(files.certificate);
  if (!facts) {
    findings.fail(facts.error());
    return std::nullopt;
  }
  check_dates(fmt::format("the certificate {}", files.certificate), *facts, now_unix_s, findings);
  if (const Status issued = pki::check_issued_by(files.certificate, files.ca); !issued) findings.fail(issued.error());
  if (const Status matches = pki::check_key_matches(files.certificate, files.key); !matches) {
    findings.fail(matches.error());
  }
  check_key_mode(files.key, findings);
  return *facts;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

bool is_wildcard(const std::string& host) { return host.empty() || host == "::" || host == "0.0.0.0"; }

}  // namespace

void check_coordinator_certificate(const TlsFiles& files, const CoordinatorNames& names, std::int64_t now_unix_s,
                                   Findings& findings) {
  const auto facts = check_files(files, now_unix_s, findings);
  if (!facts) return;
  std::vector<std::string> carried = facts->dns;
  carried.insert(carried.end(), facts->ips.begin(), facts->ips.end());
  if (carried.empty()) {
    return findings.fail(
        fmt::format("the certificate {} names no host, so that no device accepts it", files.certificate),
        "issue it with `gleaner pki issue NAME --kind coordinator --dns HOST`");
  }
  const std::string all = fmt::format("{}", fmt::join(carried, ", "));
  if (!is_wildcard(names.listen_host) && !contains(carried, names.listen_host)) {
    return findings.warn(
        fmt::format("the certificate is for {}, but the coordinator listens on {}", all, names.listen_host),
        fmt::format("devices must name one of {} as host or server_name", all));
  }
  if (is_wildcard(names.listen_host) && !contains(carried, names.machine_name)) {
    return findings.warn(
        fmt::format("the certificate is for {}, but this machine calls itself {}", all, names.machine_name),
        fmt::format("devices must name one of {} as host or server_name", all));
  }
  findings.ok(fmt::format("the certificate is for {}", all));
}

void check_device_certificate(const TlsFiles& files, std::int64_t now_unix_s, Findings& findings) {
  const auto facts = check_files(files, now_unix_s, findings);
  if (!facts) return;
  for (const std::string& uri : facts->uris) {
    if (!uri.starts_with(pki::kDeviceUrn)) continue;
    const std::string name = uri.substr(pki::kDeviceUrn.size());
    if (is_valid_name(name)) return findings.ok(fmt::format("this device is {}", name));
  }
  findings.fail(fmt::format("the certificate {} names no device ({}NAME)", files.certificate, pki::kDeviceUrn),
                "issue one with `gleaner pki issue NAME`");
}

}  // namespace gleaner::cli
