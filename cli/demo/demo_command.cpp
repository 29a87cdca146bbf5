#include <fmt/format.h>
#include <poll.h>

#include <atomic>
#include <boost/json.hpp>
#include <csignal>
#include <filesystem>

#include "cli/commands.hpp"
#include "cli/demo/federation.hpp"
#include "cli/new_file.hpp"
#include "cli/table.hpp"
#include "common/text.hpp"
#include "training/model.hpp"
#include "training/named_data.hpp"

namespace gleaner::cli {
namespace {

struct DemoOptions {
  std::uint32_t rounds = 60;
  std::uint32_t clients = 8;
  std::uint64_t seed = 1;
  std::string recipe = "gsasg";
  std::string rule;  // empty: the recipe's
  std::string model = "mlp";
  std::string data;
  std::string directory;
  std::string json_file;
  double learning_rate = 0.0;  // 0: the model's
  bool compare = false;
};

struct DemoResult {
  Progress last;
  double seconds = 0.0;
};

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);
void on_interrupt(int) { interrupted = true; }

// One line in place on a terminal, now and then a line elsewhere.
class ProgressLine {
 public:
  ProgressLine(Console& console, std::string label, std::uint32_t rounds)
      : console_(console), label_(std::move(label)), rounds_(rounds) {}

  void show(const Progress& p, double seconds) {
    const double share = static_cast<double>(p.version) / std::max<std::uint32_t>(rounds_, 1);
    const std::string left = p.version == 0 ? "-" : human_span(seconds / share - seconds);
    const std::string accuracy = p.accuracy ? fmt::format("{:.1f} %", *p.accuracy * 100) : "-";
    const std::string facts =
        fmt::format("round {}/{}  accuracy {}  up {}  down {}  {} left", p.version, rounds_, accuracy,
                    human_bytes(static_cast<double>(p.up_bytes)), human_bytes(static_cast<double>(p.down_bytes)), left);
    if (console_.err_is_terminal) {
      constexpr int kWidth = 24;
      const int filled = static_cast<int>(share * kWidth);
      console_.err << fmt::format("\r\x1b[K{} [{:#<{}}{:.<{}}] {}", label_, "", filled, "", kWidth - filled, facts)
                   << std::flush;
    } else if (p.version >= next_line_) {
      console_.out << label_ << "  " << facts << "\n" << std::flush;
      next_line_ = p.version + std::max<std::uint32_t>(1, rounds_ / 12);
    }
  }
  void end() {
    if (console_.err_is_terminal) console_.err << "\n";
  }

 private:
  Console& console_;
  std::string label_;
  std::uint32_t rounds_;
  std::uint32_t next_line_ = 0;
};

Result<DemoResult> run_federation(Console& console, const FederationSpec& spec) {
  const Instant began = system_clock().now();
  Federation federation(spec);
  GLEANER_TRY(federation.start());
  ProgressLine line(console, spec.recipe, spec.rounds);
  DemoResult result;
  for (;;) {
    GLEANER_ASSIGN(result.last, federation.look());
    result.seconds = to_seconds(system_clock().now() - began);
    line.show(result.last, result.seconds);
    if (result.last.state == "finished") break;
    if (interrupted) return fail(ErrorCode::retry, "interrupted; what was done so far lies in " + spec.directory);
    ::poll(nullptr, 0, 150);
  }
  line.end();
  federation.stop();
  return result;
}

Result<std::string> find_data(const std::string& wanted) {
  std::vector<std::filesystem::path> places = dataset_places("fashion-mnist");
  if (!wanted.empty()) places = {wanted};
  std::error_code ec;
  for (const auto& place : places) {
    if (std::filesystem::is_directory(place, ec)) return std::filesystem::absolute(place).string();
  }
  if (!wanted.empty()) return fail(ErrorCode::bad_input, wanted + " is not a directory with IDX files");
  return fail(
      ErrorCode::not_found,
      "Fashion-MNIST is not installed: apt-get install dataset-fashion-mnist, or name its directory with --data DIR");
}

Result<std::string> make_directory(const std::string& wanted) {
  std::error_code ec;
  if (!wanted.empty()) {
    if (std::filesystem::exists(wanted, ec))
      return fail(ErrorCode::conflict, wanted + " is there already: name a directory that is not");
    return std::filesystem::absolute(wanted).string();
  }
  std::string name = (std::filesystem::temp_directory_path(ec) / "gleaner-demo-XXXXXX").string();
  if (ec || ::mkdtemp(name.data()) == nullptr) return fail(ErrorCode::fatal, "cannot make a temporary directory");
  return name;
}

std::uint64_t dense_bytes(const DemoOptions& options, std::size_t parameters) {
  return 4ULL * parameters * options.rounds * options.clients;
}

void print_table(Console& console, const DemoOptions& o, const DemoResult& r, const std::optional<DemoResult>& dense,
                 std::uint64_t each_way) {
  const auto bytes = [](std::uint64_t n) { return human_bytes(static_cast<double>(n)); };
  const auto accuracy = [](const DemoResult& x) { return human_percent(x.last.accuracy); };
  Table table({{""}, {o.recipe, Align::right}, {dense ? "fedavg" : "dense FedAvg (computed)", Align::right}});
  table.add({"test accuracy", accuracy(r), dense ? accuracy(*dense) : "-"});
  table.add({"rounds", std::to_string(r.last.version), std::to_string(o.rounds)});
  table.add({"uploads sent", std::to_string(r.last.uploads),
             dense ? std::to_string(dense->last.uploads) : std::to_string(o.rounds * o.clients)});
  table.add({"uploads skipped", std::to_string(r.last.skips), dense ? std::to_string(dense->last.skips) : "0"});
  table.add({"bytes up", bytes(r.last.up_bytes), dense ? bytes(dense->last.up_bytes) : bytes(each_way)});
  table.add({"bytes down", bytes(r.last.down_bytes), dense ? bytes(dense->last.down_bytes) : bytes(each_way)});
  table.add({"seconds", fmt::format("{:.1f}", r.seconds), dense ? fmt::format("{:.1f}", dense->seconds) : "-"});
  console.out << "\n";
  table.print(console.out);
  const double share =
      100.0 * static_cast<double>(r.last.up_bytes + r.last.down_bytes) / (2.0 * static_cast<double>(each_way));
  console.out << fmt::format(
      "\nAll bytes at the sockets, TLS and framing included: {:.3g} % of dense FedAvg's {} (4 bytes a parameter each "
      "way,\n"
      "for every device and round).\n",
      share, bytes(2 * each_way));
}

std::string to_json_text(const DemoOptions& o, const DemoResult& r, const std::optional<DemoResult>& dense,
                         std::uint64_t each_way) {
  boost::json::object json = {{"recipe", o.recipe},
                              {"rounds", r.last.version},
                              {"clients", o.clients},
                              {"test_accuracy", r.last.accuracy.value_or(0.0)},
                              {"bytes_up", r.last.up_bytes},
                              {"bytes_down", r.last.down_bytes},
                              {"dense_bytes_up", each_way},
                              {"dense_bytes_down", each_way},
                              {"uploads", r.last.uploads},
                              {"skips", r.last.skips},
                              {"seconds", r.seconds},
                              {"model_hash", r.last.model_hash},
                              {"seed", o.seed}};
  if (dense) {
    json["dense_test_accuracy"] = dense->last.accuracy.value_or(0.0);
    json["dense_measured_bytes_up"] = dense->last.up_bytes;
    json["dense_measured_bytes_down"] = dense->last.down_bytes;
  }
  return boost::json::serialize(json) + "\n";
}

Status demonstrate(Console& console, const DemoOptions& options) {
  GLEANER_ASSIGN(const auto data, find_data(options.data));
  GLEANER_ASSIGN(const auto shape, load_idx_dataset(data, Split::test, customary_options("fashion-mnist")));
  GLEANER_ASSIGN(const auto model, model_spec(options.model, shape));
  GLEANER_ASSIGN(const auto directory, make_directory(options.directory));
  FederationSpec spec{.directory = directory + "/" + options.recipe,
                      .recipe = options.recipe,
                      .model = options.model,
                      .data = data,
                      .rounds = options.rounds,
                      .clients = options.clients,
                      .seed = options.seed};
  spec.rule = options.rule;
  if (options.learning_rate > 0) spec.learning_rate = options.learning_rate;
  console.out
      << fmt::format(
             "One coordinator and {} clients over mutual TLS train a {} of {} parameters on Fashion-MNIST, split by\n"
             "Dirichlet(0.5), for {} rounds with recipe {}. Everything lies in {}.\n",
             options.clients, options.model, parameter_count(model), options.rounds, options.recipe, directory)
      << std::flush;
  GLEANER_ASSIGN(const auto result, run_federation(console, spec));
  std::optional<DemoResult> dense;
  if (options.compare) {
    spec.recipe = "fedavg";
    spec.rule.clear();
    spec.directory = directory + "/fedavg-compare";
    GLEANER_ASSIGN(dense, run_federation(console, spec));
  }
  const std::uint64_t each_way = dense_bytes(options, parameter_count(model));
  print_table(console, options, result, dense, each_way);
  console.out << fmt::format("Database: {0}/{1}/gleaner.db   logs: {0}/{1}/*.log\n", directory, options.recipe);
  if (options.json_file.empty()) return {};
  GLEANER_ASSIGN(auto file, NewFile::create(options.json_file, Existing::replace));
  GLEANER_TRY(file.write(as_bytes(to_json_text(options, result, dense, each_way))));
  return file.commit();
}

}  // namespace

void add_demo_command(CLI::App& root, Invocation& invocation) {
  auto* demo = root.add_subcommand("demo", "A whole federation on this machine, with real processes, TLS and data");
  auto options = std::make_shared<DemoOptions>();
  demo->add_option("--rounds", options->rounds, "Model versions to make")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  demo->add_option("--clients", options->clients, "Client processes")->check(CLI::Range(1, 256))->capture_default_str();
  demo->add_option("--seed", options->seed, "Of everything that is drawn")->capture_default_str();
  demo->add_option("--recipe", options->recipe, "gsasg, topk or fedavg")->capture_default_str();
  demo->add_option("--rule", options->rule, "Upload rule instead of the recipe's: always, residual, lasg-wk2, clag");
  demo->add_option("--model", options->model, "softmax, mlp or lenet")->capture_default_str();
  demo->add_option("--data", options->data, "Directory with Fashion-MNIST's IDX files");
  demo->add_option("--directory", options->directory, "Where everything goes; made, must not be there");
  demo->add_option("--learning-rate", options->learning_rate, "Of the local training");
  demo->add_option("--json", options->json_file, "Write the figures to this file");
  demo->add_flag("--compare", options->compare, "Run dense FedAvg as well, on the same split and rounds");
  demo->callback([&invocation, options] {
    invocation.action = [options, &invocation](Console& console) {
      std::signal(SIGINT, on_interrupt);
      std::signal(SIGTERM, on_interrupt);
      const Status done = demonstrate(console, *options);
      return done ? static_cast<int>(kOk) : report(console, invocation.common, done.error());
    };
  });
}

}  // namespace gleaner::cli
