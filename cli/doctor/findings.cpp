#include "cli/doctor/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <sstream>
#include <string_view>

#include "cli/table.hpp"

namespace gleaner::cli {
namespace {

std::string_view name_of(Level level) {
  switch (level) {
    case Level::ok: return "ok";
    case Level::warn: return "warn";
    case Level::fail: return "FAIL";
  }
  return "FAIL";
}

}  // namespace

void Findings::add(Finding finding) { all_.push_back(std::move(finding)); }

void Findings::fail(const Error& error) {
  std::istringstream lines(error.message());
  std::string line;
  while (std::getline(lines, line)) fail(line);
}

std::size_t Findings::count(Level level) const {
  return static_cast<std::size_t>(std::ranges::count(all_, level, &Finding::level));
}

void Findings::print(std::ostream& out) const {
  for (const Finding& finding : all_) {
    out << fmt::format("{:<6}{}{}{}\n", name_of(finding.level), printable(finding.what),
                       finding.advice.empty() ? "" : "  — ", printable(finding.advice));
  }
  out << fmt::format("{} checks: {} failed, {} warnings\n", all_.size(), count(Level::fail), count(Level::warn));
}

void Findings::print_json(std::ostream& out) const {
  namespace json = boost::json;
  json::array findings;
  for (const Finding& finding : all_) {
    const auto level = finding.level == Level::fail ? "fail" : name_of(finding.level);
    findings.push_back(json::object{{"level", level}, {"what", finding.what}, {"advice", finding.advice}});
  }
  const json::object object = {
      {"findings", findings}, {"failed", count(Level::fail)}, {"warnings", count(Level::warn)}};
  out << json::serialize(object) << "\n";
}

}  // namespace gleaner::cli
