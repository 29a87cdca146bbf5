#pragma once
// Reading what a coordinator sent, which may be a release older or newer: what is missing or of another kind reads as
// nothing.

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace gleaner::cli {

class JsonView {
 public:
  JsonView() = default;
  explicit JsonView(const boost::json::value& value) : value_(&value) {}  // must outlive the view

  JsonView operator[](std::string_view key) const;
  std::vector<JsonView> items() const;
  std::string text() const;
  bool flag() const;
  std::optional<double> number() const;
  std::uint64_t count() const;  // 0 for what is no whole number
  std::int64_t time_ms() const { return static_cast<std::int64_t>(count()); }

 private:
  const boost::json::value* value_ = nullptr;
};

// Errors: fatal, when the text is no JSON.
Result<boost::json::value> parse_reply(const std::string& text);

}  // namespace gleaner::cli
