#include "cli/table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/check.hpp"
#include "common/clock.hpp"
#include "common/text.hpp"

namespace gleaner::cli {
namespace {

// Columns of UTF-8 text: every byte that does not continue a character.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

}  // namespace

void Table::add(std::vector<std::string> row) {
  GLEANER_CHECK(row.size() == columns_.size());
  rows_.push_back(std::move(row));
}

void Table::print(std::ostream& out) const {
  std::vector<std::size_t> widths;
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = width_of(titles[c]);
    for (const auto& row : rows_) width = std::max(width, width_of(row[c]));
    widths.push_back(width);
  }
  const auto print_row = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - width_of(row[c]), ' ');
      line += c == 0 ? "" : "  ";
      line += columns_[c].align == Align::left ? row[c] + padding : padding + row[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << "\n";
  };
  print_row(titles);
  for (const auto& row : rows_) print_row(row);
}

std::string human_rate(double bytes_per_s) { return bytes_per_s > 0 ? human_bytes(bytes_per_s) + "/s" : "-"; }

std::string human_span(double seconds) {
  if (seconds < 60) return fmt::format("{:.3g} s", seconds);
  const auto minutes = static_cast<std::int64_t>(seconds / 60);
  if (minutes < 60) return fmt::format("{} min", minutes);
  if (minutes < 48 * 60) return fmt::format("{} h {} min", minutes / 60, minutes % 60);
  return fmt::format("{} days", minutes / (24 * 60));
}

std::string human_time(std::int64_t unix_ms, std::int64_t now_ms) {
  if (unix_ms <= 0) return "-";
  const std::int64_t ago_ms = now_ms - unix_ms;
  if (ago_ms < 0) return to_iso8601(unix_ms);
  return ago_ms < 1000 ? "now" : human_span(static_cast<double>(ago_ms / 1000)) + " ago";
}

std::string human_percent(std::optional<double> ratio) { return ratio ? fmt::format("{:.2f} %", *ratio * 100) : "-"; }

std::string printable(std::string text) {
  for (char& c : text) {
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f) c = '?';
  }
  return text;
}

}  // namespace gleaner::cli
