#pragma once
// Rows of figures beside their targets, for people and as JSON.

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace gleaner::gpu_bench {

struct Row {
  std::string name;
  double figure = 0.0;
  std::string unit;
  std::optional<double> least;  // the figure is short below it
  std::optional<double> most;   // or above it
  bool met() const { return (!least || figure >= *least) && (!most || figure <= *most); }
};

class Report {
 public:
  void add(Row row);
  bool met() const;
  std::string json(const std::string& device_note) const;

 private:
  std::vector<Row> rows_;
};

}  // namespace gleaner::gpu_bench
