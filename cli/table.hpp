#pragma once
// Aligned columns, and numbers as people read them.

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace gleaner::cli {

enum class Align { left, right };

class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::left;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void add(std::vector<std::string> row);  // as many cells as columns
  void print(std::ostream& out) const;     // two spaces between columns, none at the end of a line

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

std::string human_rate(double bytes_per_s);                         // "1.25 MB/s", "-" for 0
std::string human_time(std::int64_t unix_ms, std::int64_t now_ms);  // "3 min ago", "-" for 0
std::string human_span(double seconds);                             // "1.25 s", "3 min", "2 h 5 min", "3 days"
std::string human_percent(std::optional<double> ratio);             // "83.21 %", "-" for none

// Text of a coordinator or a device without control characters, which a terminal would obey.
std::string printable(std::string text);

}  // namespace gleaner::cli
