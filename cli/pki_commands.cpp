#include <fmt/format.h>

#include <boost/json.hpp>
#include <filesystem>
#include <memory>

#include "cli/commands.hpp"
#include "cli/table.hpp"
#include "common/clock.hpp"
#include "common/text.hpp"
#include "protocol/pki/certificate.hpp"
#include "protocol/pki/issue.hpp"

namespace gleaner::cli {
namespace {

namespace json = boost::json;

constexpr const char* kDefaultFolder = "pki";
constexpr std::int64_t kCaDays = 3650;
constexpr std::int64_t kLeafDays = 365;
constexpr std::int64_t kMaxDays = 36'500;

struct Init {
  std::string folder = kDefaultFolder;
  std::string name = "gleaner-ca";
  std::int64_t days = kCaDays;
};

struct Issue {
  std::string folder = kDefaultFolder;
  std::string name;
  std::string kind = "device";
  std::vector<std::string> dns;
  std::vector<std::string> ips;
  std::int64_t days = kLeafDays;
};

std::int64_t now_unix_s() { return system_clock().wall_unix_ms() / 1000; }

pki::KeyFiles files_of(const std::string& folder, const std::string& stem) {
  const std::filesystem::path base = std::filesystem::path(folder) / stem;
  return {base.string() + ".pem", base.string() + ".key"};
}

Result<pki::Role> role_named(const std::string& kind) {
  if (kind == "device") return pki::Role::device;
  if (kind == "coordinator") return pki::Role::coordinator;
  if (kind == "operator") return pki::Role::operator_;
  return fail(ErrorCode::bad_input, fmt::format("--kind {}: expected device, coordinator or operator", kind));
}

int print_files(Console& console, const CommonOptions& common, const pki::KeyFiles& files, std::string_view hint) {
  if (common.json) {
    const json::object object = {{"certificate", files.certificate}, {"key", files.key}};
    console.out << json::serialize(object) << "\n";
    return kOk;
  }
  console.out << fmt::format("Wrote {} and {}.{}{}\n", files.certificate, files.key, hint.empty() ? "" : " ", hint);
  return kOk;
}

int init(Console& console, const CommonOptions& common, const Init& wanted) {
  std::error_code error;
  std::filesystem::create_directories(wanted.folder, error);
  if (error) {
    const Error failed(ErrorCode::bad_input, fmt::format("{}: cannot be made: {}", wanted.folder, error.message()));
    return report(console, common, failed);
  }
  const pki::KeyFiles files = files_of(wanted.folder, "ca");
  const Status made = pki::make_ca(wanted.name, pki::Validity::days(now_unix_s(), wanted.days), files);
  if (!made) return report(console, common, made.error());
  return print_files(console, common, files,
                     "Keep the key off the coordinator and the devices: it vouches for all of them.");
}

Status issue_to(const Issue& wanted, const pki::KeyFiles& files) {
  pki::CertificateRequest request;
  GLEANER_ASSIGN(request.role, role_named(wanted.kind));
  const bool has_addresses = !wanted.dns.empty() || !wanted.ips.empty();
  if (request.role == pki::Role::coordinator && !has_addresses) {
    return fail(ErrorCode::bad_input, "a coordinator needs --dns NAME or --ip ADDRESS, as its devices connect to it");
  }
  if (request.role != pki::Role::coordinator && has_addresses) {
    return fail(ErrorCode::bad_input, "--dns and --ip are for --kind coordinator: a device is known by its name");
  }
  request.name = wanted.name;
  request.addresses = wanted.dns;
  request.addresses.insert(request.addresses.end(), wanted.ips.begin(), wanted.ips.end());
  request.validity = pki::Validity::days(now_unix_s(), wanted.days);
  return pki::issue_certificate(files_of(wanted.folder, "ca"), request, files);
}

int issue(Console& console, const CommonOptions& common, const Issue& wanted) {
  const pki::KeyFiles files = files_of(wanted.folder, wanted.name);
  if (wanted.name == "ca") {
    const Error taken(ErrorCode::bad_input, "the name ca is that of the authority's own files: choose another");
    return report(console, common, taken);
  }
  if (const Status issued = issue_to(wanted, files); !issued) return report(console, common, issued.error());
  return print_files(console, common, files, "");
}

json::object object_of(const pki::CertificateFacts& facts) {
  const auto list = [](const std::vector<std::string>& items) { return json::array(items.begin(), items.end()); };
  return {{"subject", facts.subject},
          {"issuer", facts.issuer},
          {"serial", facts.serial},
          {"is_ca", facts.is_ca},
          {"dns", list(facts.dns)},
          {"ips", list(facts.ips)},
          {"uris", list(facts.uris)},
          {"not_before", to_iso8601(facts.not_before_unix_s * 1000)},
          {"not_after", to_iso8601(facts.not_after_unix_s * 1000)}};
}

int show(Console& console, const CommonOptions& common, const std::string& file) {
  const auto facts = pki::inspect(file);
  if (!facts) return report(console, common, facts.error());
  if (common.json) {
    console.out << json::serialize(object_of(*facts)) << "\n";
    return kOk;
  }
  const auto line = [&](std::string_view what, const std::string& text) {
    if (!text.empty()) console.out << fmt::format("{:<10}{}\n", what, printable(text));
  };
  const auto all = [](const std::vector<std::string>& items) { return fmt::format("{}", fmt::join(items, ", ")); };
  const Status valid = pki::check_dates(*facts, "the certificate", now_unix_s());
  line("subject", facts->subject + (facts->is_ca ? " (an authority)" : ""));
  line("issuer", facts->issuer);
  line("serial", facts->serial);
  line("dns", all(facts->dns));
  line("ip", all(facts->ips));
  line("uri", all(facts->uris));
  line("from", to_iso8601(facts->not_before_unix_s * 1000));
  line("until", to_iso8601(facts->not_after_unix_s * 1000));
  line("now", valid ? "valid" : valid.error().message());
  return kOk;
}

void add_init(CLI::App& group, Invocation& invocation) {
  auto* command = group.add_subcommand("init", "Make a private authority: DIR/ca.pem and DIR/ca.key");
  const auto wanted = std::make_shared<Init>();
  command->add_option("DIR", wanted->folder, "The folder")->capture_default_str();
  command->add_option("--name", wanted->name, "What the authority is called")->capture_default_str();
  command->add_option("--days", wanted->days, "How long it is valid")
      ->check(CLI::Range(std::int64_t{1}, kMaxDays))
      ->capture_default_str()
      ->type_name("N");
  command->callback([&invocation, wanted] {
    invocation.action = [&invocation, wanted](Console& console) { return init(console, invocation.common, *wanted); };
  });
}

void add_issue(CLI::App& group, Invocation& invocation) {
  auto* command = group.add_subcommand("issue", "Issue a certificate: DIR/NAME.pem and DIR/NAME.key");
  const auto wanted = std::make_shared<Issue>();
  command->add_option("NAME", wanted->name, "Who it is for: a to z, 0 to 9, '.', '_' and '-'")->required();
  command->add_option("--kind", wanted->kind, "device, coordinator or operator")
      ->capture_default_str()
      ->type_name("KIND");
  command->add_option("--dns", wanted->dns, "A name that the coordinator is reached by; may be repeated")
      ->type_name("NAME")
      ->expected(1)
      ->take_all();
  command->add_option("--ip", wanted->ips, "An address that the coordinator is reached by; may be repeated")
      ->type_name("ADDRESS")
      ->expected(1)
      ->take_all();
  command->add_option("--days", wanted->days, "How long it is valid")
      ->check(CLI::Range(std::int64_t{1}, kMaxDays))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--dir", wanted->folder, "The authority's folder")->capture_default_str()->type_name("DIR");
  command->callback([&invocation, wanted] {
    invocation.action = [&invocation, wanted](Console& console) { return issue(console, invocation.common, *wanted); };
  });
}

}  // namespace

void add_pki_commands(CLI::App& root, Invocation& invocation) {
  auto* group = root.add_subcommand("pki", "A private authority and its certificates");
  group->require_subcommand(1);
  add_init(*group, invocation);
  add_issue(*group, invocation);
  auto* command = group->add_subcommand("show", "What stands in a certificate");
  const auto file = std::make_shared<std::string>();
  command->add_option("FILE", *file, "A certificate in PEM format")->required();
  command->callback([&invocation, file] {
    invocation.action = [&invocation, file](Console& console) { return show(console, invocation.common, *file); };
  });
}

}  // namespace gleaner::cli
