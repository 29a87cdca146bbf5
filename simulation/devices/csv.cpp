#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <string_view>
#include <vector>

#include "common/text.hpp"
#include "simulation/devices/sources.hpp"

namespace gleaner::simulation {
namespace {

struct Column {
  std::string_view name;
  bool is_required;
  double least;  // itself excluded where least_excluded
  bool least_excluded;
  double most;  // itself excluded for shares
  std::string_view expected;
  void (*store)(DeviceTraits&, double);
};

constexpr double kMostRate = 1e15;
constexpr double kMostLatencyMs = 600'000;
constexpr std::string_view kRate = "a number above 0, at most 1e15";
constexpr std::string_view kShare = "a number of at least 0, below 1";

constexpr std::array<Column, 7> kColumns = {
    {{"samples_per_s", true, 0, true, kMostRate, kRate, [](DeviceTraits& t, double v) { t.samples_per_s = v; }},
     {"uplink_kbit_per_s", true, 0, true, kMostRate, kRate,
      [](DeviceTraits& t, double v) { t.uplink_bytes_per_s = bytes_per_s(v); }},
     {"downlink_kbit_per_s", true, 0, true, kMostRate, kRate,
      [](DeviceTraits& t, double v) { t.downlink_bytes_per_s = bytes_per_s(v); }},
     {"latency_ms", false, 0, false, kMostLatencyMs, "a number from 0 to 600000",
      [](DeviceTraits& t, double v) { t.latency = Duration(static_cast<std::int64_t>(v * 1e6 + 0.5)); }},
     {"jitter", false, 0, false, 1, kShare, [](DeviceTraits& t, double v) { t.jitter = v; }},
     {"loss", false, 0, false, 1, kShare, [](DeviceTraits& t, double v) { t.loss = v; }},
     {"failure_rate", false, 0, false, 1, kShare, [](DeviceTraits& t, double v) { t.failure_rate = v; }}}};

bool is_inside(const Column& column, double value) {
  if (!std::isfinite(value) || value < column.least || value > column.most) return false;
  return !(column.least_excluded && value == column.least) && !(column.most == 1 && value == 1);
}

struct Field {
  std::string_view text;   // without spaces and quotes around
  std::size_t column = 1;  // of its first byte, from 1 on
};

std::vector<Field> split_line(std::string_view line) {
  std::vector<Field> fields;
  for (std::size_t start = 0; start <= line.size();) {
    const std::size_t end = std::min(line.find(',', start), line.size());
    std::size_t first = start;
    std::size_t last = end;
    while (first < last && (line[first] == ' ' || line[first] == '\t')) ++first;
    while (last > first && (line[last - 1] == ' ' || line[last - 1] == '\t')) --last;
    // Names and numbers need no quotes, but spreadsheets write them.
    const std::size_t quote = last - first >= 2 && line[first] == '"' && line[last - 1] == '"' ? 1 : 0;
    fields.push_back({line.substr(first + quote, last - first - 2 * quote), first + 1});
    start = end + 1;
  }
  return fields;
}

class CsvReader {
 public:
  CsvReader(const DeviceSettings& settings, std::string_view text)
      : path_(settings.capacity_file), link_(settings.link), text_(text) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (text_.starts_with(kByteOrderMark)) text_.remove_prefix(kByteOrderMark.size());
  }

  Result<std::vector<DeviceTraits>> read() {
    std::vector<DeviceTraits> rows;
    std::string_view line;
    while (next_line(line)) {
      const std::vector<Field> fields = split_line(line);
      if (columns_.empty()) {
        GLEANER_TRY(read_names(fields));
      } else {
        GLEANER_ASSIGN(const DeviceTraits row, read_row(fields));
        rows.push_back(row);
      }
    }
    if (columns_.empty()) return fail(ErrorCode::bad_input, path_ + ": is empty, expected a line with column names");
    if (rows.empty()) return fail(ErrorCode::bad_input, path_ + ": has no devices, expected a line for each");
    return rows;
  }

 private:
  bool next_line(std::string_view& line) {
    while (!text_.empty()) {
      const std::size_t end = std::min(text_.find('\n'), text_.size());
      line = text_.substr(0, end);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      ++number_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      const auto first = line.find_first_not_of(" \t");
      if (first != std::string_view::npos && line[first] != '#') return true;
    }
    return false;
  }

  std::unexpected<Error> mistake(std::size_t column, std::string what) const {
    return fail(ErrorCode::bad_input, fmt::format("{}:{}:{}: {}", path_, number_, column, what));
  }

  bool has_column(const Column& column) const { return std::ranges::find(columns_, &column) != columns_.end(); }

  Status read_names(std::span<const Field> fields) {
    std::vector<std::string> names;
    for (const Column& column : kColumns) names.emplace_back(column.name);
    for (const Field& field : fields) {
      const auto known = std::ranges::find(kColumns, field.text, &Column::name);
      if (known == kColumns.end()) {
        const std::string near = nearest(field.text, names);
        return mistake(field.column,
                       fmt::format("there is no column \"{}\", expected {}{}", field.text, join_names(names),
                                   near.empty() ? "" : "; did you mean " + near + "?"));
      }
      if (has_column(*known)) {
        return mistake(field.column, fmt::format("the column {} is named twice", field.text));
      }
      columns_.push_back(&*known);
    }
    for (const Column& column : kColumns) {
      if (column.is_required && !has_column(column)) {
        return mistake(1, fmt::format("the column {} is missing", column.name));
      }
    }
    return {};
  }

  Result<DeviceTraits> read_row(std::span<const Field> fields) const {
    if (fields.size() != columns_.size()) {
      const std::size_t column =
          fields.size() < columns_.size() ? fields.back().column : fields[columns_.size()].column;
      return mistake(
          column, fmt::format("has {} values, expected {}, one for each column name", fields.size(), columns_.size()));
    }
    DeviceTraits row{
        .latency = link_.latency, .jitter = link_.jitter, .loss = link_.loss, .failure_rate = link_.failure_rate};
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const std::string_view text = fields[i].text;
      double value = 0.0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc() || end != text.data() + text.size() || !is_inside(*columns_[i], value)) {
        return mistake(fields[i].column, fmt::format("{} is \"{}\", expected {}", columns_[i]->name, text.substr(0, 40),
                                                     columns_[i]->expected));
      }
      columns_[i]->store(row, value);
    }
    return row;
  }

  std::string path_;
  LinkDefaults link_;
  std::string_view text_;
  std::size_t number_ = 0;
  std::vector<const Column*> columns_;
};

class Csv final : public TraitsSource {
 public:
  explicit Csv(std::vector<DeviceTraits> rows) : rows_(std::move(rows)) {}
  DeviceTraits traits(std::uint32_t device) const override { return rows_[device % rows_.size()]; }

 private:
  std::vector<DeviceTraits> rows_;
};

}  // namespace

Result<std::unique_ptr<TraitsSource>> make_csv(const DeviceSettings& settings) {
  GLEANER_ASSIGN(const std::string text, read_trace(settings.capacity_file));
  GLEANER_ASSIGN(auto rows, CsvReader(settings, text).read());
  return std::make_unique<Csv>(std::move(rows));
}

}  // namespace gleaner::simulation
