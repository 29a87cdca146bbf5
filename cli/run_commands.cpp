#include <fmt/format.h>

#include <boost/json.hpp>
#include <memory>

#include "cli/commands.hpp"
#include "cli/json_view.hpp"
#include "cli/new_file.hpp"
#include "cli/table.hpp"
#include "common/clock.hpp"
#include "common/text.hpp"
#include "config/document.hpp"
#include "coordinator/admin/target.hpp"

namespace gleaner::cli {
namespace {

using admin::encode_component;

std::string run_target(const std::string& name) { return "/v1/runs/" + encode_component(name); }

std::string bytes_text(JsonView value) { return human_bytes(value.number().value_or(0.0)); }

std::string state_text(JsonView run) {
  const std::string state = run["state"].text();
  const std::string phase = run["phase"].text();
  return state == "active" && !phase.empty() ? phase : state;
}

std::string loss_text(JsonView value) { return value.number() ? fmt::format("{:.4f}", *value.number()) : "-"; }

// How many times less than dense, for a table.
std::string saving(JsonView sent, JsonView dense) {
  const double bytes = sent.number().value_or(0.0);
  const double dense_bytes = dense.number().value_or(0.0);
  return bytes > 0 && dense_bytes > 0 ? fmt::format("1/{:.3g} of dense", dense_bytes / bytes) : "";
}

void print_runs(const std::vector<JsonView>& runs, std::ostream& out) {
  if (runs.empty()) {
    out << "No runs. Start one with: gleaner run start FILE\n";
    return;
  }
  Table table({{"RUN"},
               {"STATE"},
               {"RECIPE"},
               {"ROUND", Align::right},
               {"DEVICES", Align::right},
               {"ACCURACY", Align::right},
               {"UP", Align::right},
               {"DOWN", Align::right},
               {"STARTED"}});
  const std::int64_t now_ms = system_clock().wall_unix_ms();
  for (const JsonView run : runs) {
    table.add({run["name"].text(), state_text(run), run["recipe"].text(),
               fmt::format("{}/{}", run["round"].count(), run["rounds"].count()),
               fmt::format("{}/{}", run["devices"]["connected"].count(), run["devices"]["known"].count()),
               human_percent(run["evaluation"]["accuracy"].number()), bytes_text(run["traffic"]["up_bytes"]),
               bytes_text(run["traffic"]["down_bytes"]), human_time(run["created_unix_ms"].time_ms(), now_ms)});
  }
  table.print(out);
}

void print_facts(JsonView run, std::ostream& out) {
  const auto line = [&](std::string_view what, const std::string& text) {
    out << fmt::format("{:<12}{}\n", what, text);
  };
  const JsonView traffic = run["traffic"];
  const JsonView dense = run["dense"];
  const JsonView counters = run["counters"];
  const std::string waiting = run["waiting_for"].text();
  constexpr std::string_view kSuspended = "suspended: ";
  line("run", run["name"].text());
  if (waiting.starts_with(kSuspended)) {
    // The reason is a sentence with paths in it, and what to do.
    line("state", "suspended");
    line("because", waiting.substr(kSuspended.size()));
  } else {
    line("state", state_text(run) + (waiting.empty() ? "" : " (" + waiting + ")"));
  }
  line("recipe", run["recipe"].text());
  line("round",
       fmt::format("{} of {}, version {}", run["round"].count(), run["rounds"].count(), run["version"].count()));
  line("devices",
       fmt::format("{} connected of {} known", run["devices"]["connected"].count(), run["devices"]["known"].count()));
  line("accuracy", fmt::format("{}, loss {} (version {})", human_percent(run["evaluation"]["accuracy"].number()),
                               loss_text(run["evaluation"]["loss"]), run["evaluation"]["version"].count()));
  line("up", fmt::format("{}  {}", bytes_text(traffic["up_bytes"]), saving(traffic["up_bytes"], dense["up_bytes"])));
  line("down",
       fmt::format("{}  {}", bytes_text(traffic["down_bytes"]), saving(traffic["down_bytes"], dense["down_bytes"])));
  line("answers",
       fmt::format("{} updates ({} late), {} skips, {} refusals, {} lapsed plans, {} empty rounds",
                   counters["uploads"].count(), counters["late_uploads"].count(), counters["skips"].count(),
                   counters["refusals"].count(), counters["lapsed_plans"].count(), counters["empty_rounds"].count()));
  line("model", run["model_hash"].text());
}

void print_rounds(const std::vector<JsonView>& rounds, std::ostream& out) {
  if (rounds.empty()) return;
  Table table({{"ROUND", Align::right},
               {"VERSION", Align::right},
               {"UPDATES", Align::right},
               {"SKIPS", Align::right},
               {"REFUSED", Align::right},
               {"UP", Align::right},
               {"DOWN", Align::right},
               {"TOOK", Align::right},
               {"ACCURACY", Align::right},
               {"LOSS", Align::right}});
  for (const JsonView round : rounds) {
    table.add({std::to_string(round["round"].count()), std::to_string(round["version"].count()),
               std::to_string(round["contributions"].count()), std::to_string(round["skips"].count()),
               std::to_string(round["refusals"].count()), bytes_text(round["traffic"]["up_bytes"]),
               bytes_text(round["traffic"]["down_bytes"]),
               human_span(round["duration_ms"].number().value_or(0.0) / 1000),
               human_percent(round["accuracy"].number()), loss_text(round["loss"])});
  }
  out << "\n";
  table.print(out);
}

int list_runs(Console& console, const CommonOptions& common) {
  return with_coordinator(console, common, [&](AdminClient& client) -> Status {
    GLEANER_ASSIGN(const std::string reply, client.get("/v1/runs"));
    if (common.json) {
      console.out << reply;
      return {};
    }
    GLEANER_ASSIGN(const boost::json::value value, parse_reply(reply));
    print_runs(JsonView(value)["runs"].items(), console.out);
    return {};
  });
}

int show_run(Console& console, const CommonOptions& common, const std::string& name, unsigned rounds) {
  return with_coordinator(console, common, [&](AdminClient& client) -> Status {
    GLEANER_ASSIGN(const std::string reply, client.get(fmt::format("{}?rounds={}", run_target(name), rounds)));
    if (common.json) {
      console.out << reply;
      return {};
    }
    GLEANER_ASSIGN(const boost::json::value value, parse_reply(reply));
    print_facts(JsonView(value)["run"], console.out);
    print_rounds(JsonView(value)["rounds"].items(), console.out);
    return {};
  });
}

int start_run(Console& console, const CommonOptions& common, const std::string& file) {
  const auto text = config::read_file(file);
  if (!text) return report(console, common, text.error());
  return with_coordinator(console, common, [&](AdminClient& client) -> Status {
    const std::string target = "/v1/runs?path=" + encode_component(absolute(file));
    GLEANER_ASSIGN(const std::string reply, client.post(target, *text));
    if (common.json) {
      console.out << reply;
      return {};
    }
    GLEANER_ASSIGN(const boost::json::value value, parse_reply(reply));
    const std::string name = JsonView(value)["name"].text();
    console.out << fmt::format("Run {} is {}. Watch it with: gleaner run show {}\n", name, state_text(JsonView(value)),
                               name);
    return {};
  });
}

struct Verb {
  std::string_view name;
  std::string_view help;
};

int change_run(Console& console, const CommonOptions& common, const std::string& name, std::string_view verb) {
  return with_coordinator(console, common, [&](AdminClient& client) -> Status {
    GLEANER_ASSIGN(const std::string reply, client.post(fmt::format("{}/{}", run_target(name), verb)));
    if (common.json) {
      console.out << reply;
      return {};
    }
    GLEANER_ASSIGN(const boost::json::value value, parse_reply(reply));
    console.out << fmt::format("Run {} is {}.\n", JsonView(value)["name"].text(), state_text(JsonView(value)));
    return {};
  });
}

// Stopping is for ever: it is asked for, or said with --yes.
bool is_confirmed(Console& console, const std::string& name) {
  console.err << fmt::format("Stop run {} for ever? Its model stays and can be exported. [y/N] ", name) << std::flush;
  std::string answer;
  return std::getline(console.in, answer) && (answer == "y" || answer == "Y" || answer == "yes");
}

int stop_run(Console& console, const CommonOptions& common, const std::string& name, bool yes) {
  if (!yes && !console.in_is_terminal) {
    const Error error(ErrorCode::bad_input, fmt::format("stopping run {} is for ever: add --yes", name));
    return report(console, common, error);
  }
  if (!yes && !is_confirmed(console, name)) {
    console.err << "Nothing was stopped.\n";
    return kFailure;
  }
  return change_run(console, common, name, "stop");
}

struct Export {
  std::string name;
  std::string file;
  bool force = false;
};

int export_run(Console& console, const CommonOptions& common, const Export& wanted) {
  std::uint64_t received_bytes = 0;
  const auto download = [&](AdminClient& client) -> Status {
    const Existing existing = wanted.force ? Existing::replace : Existing::keep;
    GLEANER_ASSIGN(NewFile file, NewFile::create(wanted.file, existing));
    const auto sink = [&](ByteView piece, std::uint64_t total_bytes) -> Status {
      received_bytes += piece.size();
      if (console.err_is_terminal && total_bytes > 0) {
        console.err << fmt::format("\r{} of {}", human_bytes(static_cast<double>(received_bytes)),
                                   human_bytes(static_cast<double>(total_bytes)))
                    << std::flush;
      }
      return file.write(piece);
    };
    const Status done = client.download(run_target(wanted.name) + "/model", sink);
    if (console.err_is_terminal && received_bytes > 0) console.err << "\n";
    GLEANER_TRY(done);
    return file.commit();
  };
  const int code = with_coordinator(console, common, download);
  if (code != kOk) return code;
  if (common.json) {
    const boost::json::object object = {{"file", absolute(wanted.file)}, {"bytes", received_bytes}};
    console.out << boost::json::serialize(object) << "\n";
  } else {
    console.out << fmt::format("Wrote {} ({}).\n", wanted.file, human_bytes(static_cast<double>(received_bytes)));
  }
  return kOk;
}

void add_stop(CLI::App& group, Invocation& invocation) {
  auto* command = group.add_subcommand("stop", "End a run for ever; its model stays");
  const auto name = std::make_shared<std::string>();
  const auto yes = std::make_shared<bool>(false);
  command->add_option("NAME", *name, "The run")->required();
  command->add_flag("--yes", *yes, "Do not ask");
  command->callback([&invocation, name, yes] {
    invocation.action = [&invocation, name, yes](Console& console) {
      return stop_run(console, invocation.common, *name, *yes);
    };
  });
}

void add_export(CLI::App& group, Invocation& invocation) {
  auto* command = group.add_subcommand("export", "Write a run's newest model as a safetensors file");
  const auto wanted = std::make_shared<Export>();
  command->add_option("NAME", wanted->name, "The run")->required();
  command->add_option("FILE", wanted->file, "The file to write")->required();
  command->add_flag("--force", wanted->force, "Replace the file");
  command->callback([&invocation, wanted] {
    invocation.action = [&invocation, wanted](Console& console) {
      return export_run(console, invocation.common, *wanted);
    };
  });
}

void add_show(CLI::App& group, Invocation& invocation) {
  auto* command = group.add_subcommand("show", "A run and its newest rounds");
  const auto name = std::make_shared<std::string>();
  const auto rounds = std::make_shared<unsigned>(10);
  command->add_option("NAME", *name, "The run")->required();
  command->add_option("--rounds", *rounds, "How many rounds")->check(CLI::Range(1, 100'000))->type_name("N");
  command->callback([&invocation, name, rounds] {
    invocation.action = [&invocation, name, rounds](Console& console) {
      return show_run(console, invocation.common, *name, *rounds);
    };
  });
}

void add_start(CLI::App& group, Invocation& invocation) {
  auto* command = group.add_subcommand("start", "Start a run");
  const auto file = std::make_shared<std::string>();
  command->add_option("FILE", *file, "The run's settings (TOML)")->required();
  command->callback([&invocation, file] {
    invocation.action = [&invocation, file](Console& console) { return start_run(console, invocation.common, *file); };
  });
}

void add_list(CLI::App& group, Invocation& invocation) {
  group.add_subcommand("list", "All runs")->callback([&invocation] {
    invocation.action = [&invocation](Console& console) { return list_runs(console, invocation.common); };
  });
}

}  // namespace

void add_run_commands(CLI::App& root, Invocation& invocation) {
  auto* group = root.add_subcommand("run", "Start, watch and end runs");
  group->require_subcommand(1);
  add_start(*group, invocation);
  add_list(*group, invocation);
  add_show(*group, invocation);
  for (const Verb verb :
       {Verb{"pause", "Plan no further rounds until it is resumed"}, Verb{"resume", "Go on with a paused run"}}) {
    auto* command = group->add_subcommand(std::string(verb.name), std::string(verb.help));
    const auto name = std::make_shared<std::string>();
    command->add_option("NAME", *name, "The run")->required();
    command->callback([&invocation, name, verb] {
      invocation.action = [&invocation, name, verb](Console& console) {
        return change_run(console, invocation.common, *name, verb.name);
      };
    });
  }
  add_stop(*group, invocation);
  add_export(*group, invocation);
}

}  // namespace gleaner::cli
