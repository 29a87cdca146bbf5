#include <fmt/format.h>

#include <boost/json.hpp>
#include <memory>

#include "cli/commands.hpp"
#include "cli/json_view.hpp"

namespace gleaner::cli {
namespace {

int show_audit(Console& console, const CommonOptions& common, unsigned count) {
  return with_coordinator(console, common, [&](AdminClient& client) -> Status {
    GLEANER_ASSIGN(const std::string reply, client.get(fmt::format("/v1/audit?count={}", count)));
    if (common.json) {
      console.out << reply;
      return {};
    }
    GLEANER_ASSIGN(const boost::json::value value, parse_reply(reply));
    for (const JsonView entry : JsonView(value)["entries"].items()) console.out << entry.text() << "\n";
    return {};
  });
}

}  // namespace

void add_audit_command(CLI::App& root, Invocation& invocation) {
  auto* command = root.add_subcommand("audit", "Who changed what on the coordinator");
  const auto count = std::make_shared<unsigned>(50);
  command->add_option("--count", *count, "How many of the newest entries")
      ->check(CLI::Range(1, 10'000))
      ->type_name("N");
  command->callback([&invocation, count] {
    invocation.action = [&invocation, count](Console& console) {
      return show_audit(console, invocation.common, *count);
    };
  });
}

}  // namespace gleaner::cli
