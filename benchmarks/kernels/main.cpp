// bench_kernels [--json FILE] [--only NAME]: the kernels' figures, one line each.
// Exit status: 0 all met, 1 one is short, 2 it could not be measured.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "benchmarks/kernels/rows.hpp"
#include "benchmarks/service/report.hpp"
#include "common/clock.hpp"

namespace {

using namespace gleaner;
using namespace gleaner::bench;

struct Group {
  const char* name;
  void (*measure)(KernelRows&);
};
constexpr Group kGroups[] = {{"select", measure_select},   {"fused", measure_fused},
                             {"hard", measure_weak_spots}, {"threads", measure_threads},
                             {"avx", measure_targets},     {"scatter", measure_scatter},
                             {"codec", measure_codec},     {"coded", measure_scatter_coded}};

const char* verdict(const KernelRow& row) {
  if (!row.open.empty()) return "open";
  return row.met() ? "met" : "short";
}

void print(const KernelRow& row) {
  std::string line = fmt::format("{:<5} {:>8.2f} at {} {:>5.1f}   {}", verdict(row), row.value,
                                 row.limit == Limit::at_least ? "least" : "most ", row.target, row.text);
  for (const Beside& beside : row.beside) line += fmt::format("; {} {:.2f} {}", beside.name, beside.value, beside.unit);
  if (!row.open.empty()) line += fmt::format(" (not judged: {})", row.open);
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

boost::json::value to_json(const KernelRow& row) {
  boost::json::array beside;
  for (const Beside& entry : row.beside) {
    beside.push_back(boost::json::object{{"name", entry.name}, {"value", entry.value}, {"unit", entry.unit}});
  }
  return boost::json::object{{"name", row.name},     {"text", row.text},
                             {"value", row.value},   {"limit", row.limit == Limit::at_least ? "at least" : "at most"},
                             {"target", row.target}, {"verdict", verdict(row)},
                             {"note", row.open},     {"beside", std::move(beside)}};
}

double load() {
  double average = 0.0;
  return getloadavg(&average, 1) == 1 ? average : -1.0;
}

int measure(const std::string& only, const std::string& json) {
  const Machine machine = this_machine();
  fmt::print("{} cores, {}, {:.0f} GiB, {}, load {:.1f}\n", machine.cores, machine.processor, machine.memory_gib,
             machine.system, load());
  KernelRows rows;
  bool met = true;
  for (const Group& group : kGroups) {
    if (!only.empty() && only != group.name) continue;
    const std::size_t before = rows.size();
    group.measure(rows);
    for (std::size_t i = before; i < rows.size(); ++i) {
      print(rows[i]);
      met = met && (!rows[i].open.empty() || rows[i].met());
    }
  }
  if (!json.empty()) {
    boost::json::array all;
    for (const KernelRow& row : rows) all.push_back(to_json(row));
    const boost::json::object report{{"date", to_iso8601(system_clock().wall_unix_ms())},
                                     {"machine",
                                      {{"processor", machine.processor},
                                       {"cores", machine.cores},
                                       {"memory_gib", machine.memory_gib},
                                       {"system", machine.system},
                                       {"load", load()}}},
                                     {"rows", all}};
    std::ofstream file(json);
    file << boost::json::serialize(report) << '\n';
    file.close();
    if (!file) {
      fmt::print(stderr, "bench: cannot write {}\n", json);
      return 2;
    }
  }
  return met ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Measures the kernels beside what the machine itself can do"};
  std::string json;
  std::string only;
  app.add_option("--json", json, "also write the rows as JSON to this file");
  app.add_option("--only", only, "one group: select, fused, hard, threads, avx, scatter, coded or codec")
      ->check(CLI::IsMember({"select", "fused", "hard", "threads", "avx", "scatter", "coded", "codec"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return measure(only, json);
}
