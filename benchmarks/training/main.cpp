// bench_simulator [--json FILE] [--only NAME] [--turns N]: the simulator's figures, one line each.
// Exit status: 0 all met, 1 one is short, 2 it could not be measured.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <fstream>

#include "benchmarks/service/report.hpp"
#include "benchmarks/simulation/rows.hpp"
#include "benchmarks/training/rows.hpp"
#include "common/clock.hpp"
#include "common/log.hpp"

namespace {

using namespace gleaner;
using namespace gleaner::bench;

const char* verdict(const KernelRow& row) { return row.met() ? "met" : "short"; }

void print(const KernelRow& row) {
  std::string line = fmt::format("{:<5} {:>8.2f} at {} {:>7.2f}   {}", verdict(row), row.value,
                                 row.limit == Limit::at_least ? "least" : "most ", row.target, row.text);
  for (const Beside& beside : row.beside) line += fmt::format("; {} {:.0f} {}", beside.name, beside.value, beside.unit);
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

boost::json::value to_json(const KernelRow& row) {
  boost::json::array beside;
  for (const Beside& entry : row.beside) {
    beside.push_back(boost::json::object{{"name", entry.name}, {"value", entry.value}, {"unit", entry.unit}});
  }
  return boost::json::object{
      {"name", row.name},           {"text", row.text},
      {"value", row.value},         {"limit", row.limit == Limit::at_least ? "at least" : "at most"},
      {"target", row.target},       {"verdict", verdict(row)},
      {"beside", std::move(beside)}};
}

bool write_report(const std::string& path, const KernelRows& rows) {
  const Machine machine = this_machine();
  boost::json::array all;
  for (const KernelRow& row : rows) all.push_back(to_json(row));
  const boost::json::object report{{"date", to_iso8601(system_clock().wall_unix_ms())},
                                   {"machine",
                                    {{"processor", machine.processor},
                                     {"cores", machine.cores},
                                     {"memory_gib", machine.memory_gib},
                                     {"system", machine.system}}},
                                   {"rows", all}};
  std::ofstream file(path);
  file << boost::json::serialize(report) << '\n';
  file.close();
  return static_cast<bool>(file);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Measures the simulator beside what the machine itself can do"};
  std::string json;
  TrainingOptions options;
  app.add_option("--json", json, "also write the rows as JSON to this file");
  std::string only;
  app.add_option("--only", only, "one kind of row: overhead, round, population, or the trainer of one model")
      ->check(CLI::IsMember({"softmax", "mlp", "lenet", "cnn", "overhead", "round", "population"}));
  app.add_option("--turns", options.turns, "how often each is measured, in turns")->check(CLI::Range(1, 1000));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const Machine machine = this_machine();
  fmt::print("{} cores, {}, {:.0f} GiB, {}\n", machine.cores, machine.processor, machine.memory_gib, machine.system);
  start_logging({.level = LogLevel::error});
  KernelRows rows;
  const auto wanted = [&](std::string_view kind) { return only.empty() || only == kind; };
  // First, while the process is small: it forks.
  if (wanted("population")) measure_population(rows);
  if (wanted("round")) measure_round(std::min(options.turns, 5), rows);
  if (wanted("overhead")) measure_overhead(std::min(options.turns, 5), rows);
  options.model = only;
  if (only != "overhead" && only != "round" && only != "population") measure_training(options, rows);
  bool met = true;
  for (const KernelRow& row : rows) {
    print(row);
    met = met && row.met();
  }
  if (!json.empty() && !write_report(json, rows)) {
    fmt::print(stderr, "bench: cannot write {}\n", json);
    return 2;
  }
  return met ? 0 : 1;
}
