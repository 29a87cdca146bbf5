#include "benchmarks/service/report.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <thread>

#include "common/check.hpp"
#include "common/clock.hpp"

namespace gleaner::bench {
namespace {

struct ClosePipe {
  void operator()(std::FILE* pipe) const noexcept { ::pclose(pipe); }
};

// Of the checkout that the program was built from; "unknown" outside of one.
std::string commit_of_sources() {
  const std::string command =
      fmt::format("git -C '{}' describe --always --dirty --abbrev=12 2>/dev/null", GLEANER_SOURCE_DIR);
  const std::unique_ptr<std::FILE, ClosePipe> pipe(::popen(command.c_str(), "r"));
  std::array<char, 128> line{};
  if (!pipe || std::fgets(line.data(), line.size(), pipe.get()) == nullptr) return "unknown";
  std::string commit(line.data());
  while (!commit.empty() && commit.back() == '\n') commit.pop_back();
  return commit.empty() ? "unknown" : commit;
}

std::string number(double value) {
  if (std::abs(value) >= 100.0) return fmt::format("{:.0f}", value);
  return std::abs(value) >= 10.0 ? fmt::format("{:.1f}", value) : fmt::format("{:.2f}", value);
}

boost::json::object to_json(const Row& row) {
  boost::json::array references;
  for (const Reference& reference : row.references) {
    references.push_back(boost::json::object{{"name", reference.name}, {"value", reference.value}});
  }
  return {{"name", row.name},     {"text", row.text}, {"unit", row.unit},     {"value", row.value},
          {"target", row.target}, {"met", row.met()}, {"beside", references}, {"note", row.note}};
}

}  // namespace

Machine this_machine() {
  Machine machine{.processor = "unknown", .cores = std::thread::hardware_concurrency()};
  std::ifstream processors("/proc/cpuinfo");
  for (std::string line; std::getline(processors, line);) {
    const auto colon = line.find(": ");
    if (!line.starts_with("model name") || colon == std::string::npos) continue;
    machine.processor = line.substr(colon + 2);
    break;
  }
  machine.memory_gib =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1U << 30);
  utsname name{};
  if (::uname(&name) == 0) machine.system = fmt::format("{} {} {}", name.sysname, name.release, name.machine);
  return machine;
}

std::string to_line(const Row& row) {
  std::string line = fmt::format("{:<5} {:>9} {:<7} at most {:>6}   {}", row.met() ? "met" : "short", number(row.value),
                                 row.unit, number(row.target), row.text);
  for (const Reference& reference : row.references) {
    line += fmt::format("; {} {}", reference.name, number(reference.value));
  }
  if (!row.note.empty()) line += fmt::format(" ({})", row.note);
  return line;
}

Status write_json(const std::string& path, const std::vector<Row>& rows) {
  const Machine machine = this_machine();
  boost::json::array all;
  for (const Row& row : rows) all.push_back(to_json(row));
  const boost::json::object report{{"commit", commit_of_sources()},
                                   {"date", to_iso8601(system_clock().wall_unix_ms())},
                                   {"machine",
                                    {{"processor", machine.processor},
                                     {"cores", machine.cores},
                                     {"memory_gib", machine.memory_gib},
                                     {"system", machine.system}}},
                                   {"rows", all}};
  std::ofstream file(path);
  file << boost::json::serialize(report) << '\n';
  file.close();
  if (!file) return fail(ErrorCode::bad_input, fmt::format("cannot write {}", path));
  return {};
}

double median_of(std::vector<double> values) {
  GLEANER_CHECK(!values.empty());
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace gleaner::bench
