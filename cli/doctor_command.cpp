#include <filesystem>
#include <memory>

#include "cli/commands.hpp"
#include "cli/doctor/checks.hpp"

namespace gleaner::cli {
namespace {

struct Files {
  std::string coordinator;
  std::string client;
  std::string run;
};

// Without a file named, those that lie here under their usual names.
void find_usual_files(Files& files) {
  if (!files.coordinator.empty() || !files.client.empty() || !files.run.empty()) return;
  if (std::filesystem::exists("coordinator.toml")) files.coordinator = "coordinator.toml";
  if (std::filesystem::exists("client.toml")) files.client = "client.toml";
}

int examine(Console& console, const CommonOptions& common, Files files) {
  if (files.coordinator.empty()) files.coordinator = common.config;
  find_usual_files(files);
  if (files.coordinator.empty() && files.client.empty() && files.run.empty()) {
    const Error nothing(ErrorCode::bad_input,
                        "there is neither coordinator.toml nor client.toml here: name a file with --coordinator, "
                        "--client or --run");
    return report(console, common, nothing);
  }
  Findings findings;
  if (!files.coordinator.empty()) check_coordinator(files.coordinator, findings);
  if (!files.client.empty()) check_client(files.client, findings);
  if (!files.run.empty()) check_run(files.run, findings);
  if (common.json) {
    findings.print_json(console.out);
  } else {
    findings.print(console.out);
  }
  return findings.count(Level::fail) == 0 ? kOk : kFailure;
}

}  // namespace

void add_doctor_command(CLI::App& root, Invocation& invocation) {
  auto* command =
      root.add_subcommand("doctor", "Check files, certificates, ports, disk and data, and say what is wrong");
  const auto files = std::make_shared<Files>();
  command->add_option("--coordinator", files->coordinator, "A coordinator's file")->type_name("FILE");
  command->add_option("--client", files->client, "A client's file")->type_name("FILE");
  command->add_option("--run", files->run, "A run's file")->type_name("FILE");
  command->callback([&invocation, files] {
    invocation.action = [&invocation, files](Console& console) { return examine(console, invocation.common, *files); };
  });
}

}  // namespace gleaner::cli
