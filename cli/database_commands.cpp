#include <fmt/format.h>

#include <boost/json.hpp>
#include <memory>

#include "cli/commands.hpp"
#include "cli/json_view.hpp"
#include "coordinator/admin/target.hpp"
#include "storage/database.hpp"

namespace gleaner::cli {
namespace {

int back_up(Console& console, const CommonOptions& common, const std::string& file) {
  const std::string path = absolute(file);
  return with_coordinator(console, common, [&](AdminClient& client) -> Status {
    GLEANER_ASSIGN(const std::string reply, client.post("/v1/database/backup?path=" + admin::encode_component(path)));
    console.out << (common.json ? reply : fmt::format("Wrote {}, on the coordinator's machine.\n", path));
    return {};
  });
}

constexpr const char* kSound = "The database is sound: pages, checksums and the log.\n";

// Read-only and without the lock, so that it may be done beside a coordinator.
int check_file(Console& console, const CommonOptions& common, const std::string& file) {
  const auto check = [&]() -> Status {
    GLEANER_ASSIGN(const auto database, Database::open(file, Database::Access::inspect));
    return database->check();
  };
  if (const Status sound = check(); !sound) return report(console, common, sound.error());
  console.out << (common.json ? "{}\n" : kSound);
  return kOk;
}

int check_served(Console& console, const CommonOptions& common) {
  return with_coordinator(console, common, [&](AdminClient& client) -> Status {
    GLEANER_ASSIGN(const std::string reply, client.post("/v1/database/check"));
    console.out << (common.json ? reply : std::string(kSound));
    return {};
  });
}

}  // namespace

void add_database_commands(CLI::App& root, Invocation& invocation) {
  auto* group = root.add_subcommand("db", "Back up and check the coordinator's database");
  group->require_subcommand(1);
  const auto file = std::make_shared<std::string>();
  auto* backup = group->add_subcommand("backup", "Write a consistent copy while the coordinator runs");
  backup->add_option("FILE", *file, "The copy; a new file on the coordinator's machine")->required();
  backup->callback([&invocation, file] {
    invocation.action = [&invocation, file](Console& console) { return back_up(console, invocation.common, *file); };
  });
  auto* check = group->add_subcommand("check", "Check pages, checksums and the log");
  check->add_option("--database", *file, "Check this file instead of asking the coordinator")->type_name("FILE");
  check->callback([&invocation, file] {
    invocation.action = [&invocation, file](Console& console) {
      return file->empty() ? check_served(console, invocation.common) : check_file(console, invocation.common, *file);
    };
  });
}

}  // namespace gleaner::cli
