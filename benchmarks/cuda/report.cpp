#include "benchmarks/cuda/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gleaner::gpu_bench {

void Report::add(Row row) {
  std::string target;
  if (row.least) target = fmt::format("at least {:g}", *row.least);
  if (row.most) target = fmt::format("at most {:g}", *row.most);
  const char* verdict = row.least || row.most ? (row.met() ? "met" : "SHORT") : "";
  fmt::print("{:58} {:>12.4g} {:8} {:16} {}\n", row.name, row.figure, row.unit, target, verdict);
  std::fflush(stdout);
  rows_.push_back(std::move(row));
}

bool Report::met() const { return std::ranges::all_of(rows_, &Row::met); }

std::string Report::json(const std::string& device_note) const {
  std::string out = fmt::format("{{\"device\": \"{}\", \"met\": {}, \"rows\": [", device_note, met());
  const char* separator = "\n";
  for (const Row& row : rows_) {
    out += fmt::format("{}  {{\"name\": \"{}\", \"figure\": {:.6g}, \"unit\": \"{}\"", separator, row.name, row.figure,
                       row.unit);
    if (row.least) out += fmt::format(", \"at_least\": {:g}", *row.least);
    if (row.most) out += fmt::format(", \"at_most\": {:g}", *row.most);
    out += fmt::format(", \"met\": {}}}", row.met());
    separator = ",\n";
  }
  return out + "\n]}\n";
}

}  // namespace gleaner::gpu_bench
