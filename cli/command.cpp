#include "cli/command.hpp"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <filesystem>

#include "cli/table.hpp"
#include "coordinator/admin/codes.hpp"
#include "coordinator/config.hpp"
#include "protocol/link/host_port.hpp"

namespace gleaner::cli {
namespace {

constexpr std::string_view kAbout = "Runs, devices and certificates of a Gleaner coordinator.";
constexpr std::string_view kFooter =
    "Exit codes: 0 done, 1 failed, 2 wrong command line or file, 3 no coordinator answers, 4 not found or in conflict.";

void add_common_options(CLI::App& app, Invocation& invocation) {
  CommonOptions& common = invocation.common;
  app.add_flag("--json", common.json, "Print JSON, as the coordinator sent it");
  app.add_option("--socket", common.socket, "The coordinator's Unix socket")->type_name("PATH");
  app.add_option("--config", common.config, "The coordinator's file, which names its socket")->type_name("FILE");
  app.add_option("--remote", common.remote, "A coordinator elsewhere: its admin.tls")->type_name("HOST:PORT");
  app.add_option("--ca", common.ca, "With --remote: the authority's certificate")->type_name("FILE");
  app.add_option("--cert", common.certificate, "With --remote: the operator's certificate")->type_name("FILE");
  app.add_option("--key", common.key, "With --remote: its key")->type_name("FILE");
}

int report_usage(Console& console, const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success))
    return app.exit(error, console.out, console.err);
  console.err << "gleaner: " << error.what() << "\n(gleaner --help lists the commands, gleaner COMMAND --help its "
              << "options)\n";
  return kUsage;
}

}  // namespace

int exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::bad_input: return kUsage;
    case ErrorCode::conflict:
    case ErrorCode::not_found: return kConflict;
    default: return kFailure;
  }
}

int run(std::vector<std::string> args, Console& console) {
  CLI::App app{std::string(kAbout), "gleaner"};
  Invocation invocation;
  app.fallthrough();
  app.require_subcommand(1);
  app.footer(std::string(kFooter));
  add_common_options(app, invocation);
  for (const CommandGroup& group : command_groups()) group.add(app, invocation);
  std::reverse(args.begin(), args.end());  // CLI11 takes them from the back
  try {
    app.parse(std::move(args));
  } catch (const CLI::ParseError& error) {
    return report_usage(console, app, error);
  }
  const int code = invocation.action ? invocation.action(console) : static_cast<int>(kUsage);
  console.out.flush();
  if (console.out) return code;
  console.err << "gleaner: the output could not be written\n";
  return kFailure;
}

int report(Console& console, const CommonOptions& common, const Error& error, ExitCode code) {
  if (common.json) {
    const boost::json::object object = {{"code", admin::row_of(error.code()).name}, {"message", error.message()}};
    console.out << boost::json::serialize(object) << "\n";
  }
  console.err << "gleaner: " << printable(error.message()) << "\n";
  return code;
}

int report(Console& console, const CommonOptions& common, const Error& error) {
  return report(console, common, error, static_cast<ExitCode>(exit_code_of(error.code())));
}

Result<std::string> find_socket(const CommonOptions& common) {
  if (!common.socket.empty()) return common.socket;
  if (common.config.empty()) return absolute("gleaner.sock");
  GLEANER_ASSIGN(const CoordinatorConfig config, load_coordinator_config(common.config));
  return config.admin_socket;
}

namespace {

Result<RemoteCoordinator> find_remote(const CommonOptions& common) {
  if (!common.socket.empty() || !common.config.empty())
    return fail(ErrorCode::bad_input, "--remote stands beside --socket or --config: give one of them");
  if (common.ca.empty() || common.certificate.empty() || common.key.empty())
    return fail(ErrorCode::bad_input, "--remote needs --ca, --cert and --key: the files of an operator's certificate");
  auto place = parse_host_port(common.remote);
  if (!place) return fail(place.error().within("--remote"));
  return RemoteCoordinator{place->host, place->port, common.ca, common.certificate, common.key};
}

}  // namespace

int with_coordinator(Console& console, const CommonOptions& common, const std::function<Status(AdminClient&)>& use) {
  const auto ask = [&](Result<AdminClient> client) {
    if (!client) return report(console, common, client.error(), kUnreachable);
    const Status done = use(*client);
    return done ? static_cast<int>(kOk) : report(console, common, done.error());
  };
  if (!common.remote.empty()) {
    const auto remote = find_remote(common);
    if (!remote) return report(console, common, remote.error());
    auto client = AdminClient::connect(*remote);
    // The own files are at fault, not the way to the coordinator.
    if (!client && client.error().code() == ErrorCode::bad_input) return report(console, common, client.error());
    return ask(std::move(client));
  }
  if (!common.ca.empty() || !common.certificate.empty() || !common.key.empty()) {
    return report(console, common, Error(ErrorCode::bad_input, "--ca, --cert and --key need --remote HOST:PORT"));
  }
  const auto socket = find_socket(common);
  if (!socket) return report(console, common, socket.error());
  return ask(AdminClient::connect(*socket));
}

std::string absolute(const std::string& path) {
  std::error_code error;
  const auto full = std::filesystem::absolute(path, error);
  return error ? path : full.lexically_normal().string();
}

}  // namespace gleaner::cli
