#include "config/kind.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "common/ids.hpp"
#include "common/text.hpp"
#include "config/units.hpp"

namespace gleaner::config {
namespace {

Fault is(const Value& value) { return {.what = "is " + describe(value), .meant = {}}; }

std::string range_text(std::string_view noun, std::string least, std::string most) {
  if (least.empty() && most.empty()) return std::string(noun);
  if (most.empty()) return fmt::format("{} of at least {}", noun, least);
  if (least.empty()) return fmt::format("{} of at most {}", noun, most);
  if (least == most) return fmt::format("{} of {}", noun, most);
  return fmt::format("{} from {} to {}", noun, least, most);
}

// The number without a useless ".0": 1 instead of 1.0.
std::string short_number(double value) {
  std::string text = format_number(value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

std::string expected_number(const NumberRange& range) {
  const NumberRange all;
  const bool has_least = range.least != all.least;
  const bool has_most = range.most != all.most;
  const std::string least = short_number(range.least);
  const std::string most = short_number(range.most);
  if (range.excluded == Excluded::least && has_most) return fmt::format("a number above {}, at most {}", least, most);
  if (range.excluded == Excluded::least) return fmt::format("a number above {}", least);
  if (range.excluded == Excluded::most) return fmt::format("a number of at least {}, below {}", least, most);
  return range_text("a number", has_least ? least : "", has_most ? most : "");
}

bool is_inside(double value, const NumberRange& range) {
  if (!std::isfinite(value) || value < range.least || value > range.most) return false;
  if (range.excluded == Excluded::least) return value != range.least;
  return range.excluded != Excluded::most || value != range.most;
}

std::optional<double> number_in(const Value& value) {
  if (const auto* v = std::get_if<double>(&value.scalar)) return *v;
  if (const auto* v = std::get_if<std::int64_t>(&value.scalar)) return static_cast<double>(*v);
  return std::nullopt;
}

template <class Float>
Kind number_as(Float& into, NumberRange range) {
  const auto set = [&into, range](const Value& value) -> std::optional<Fault> {
    const auto found = number_in(value);
    if (!found || !is_inside(*found, range)) return is(value);
    const auto rounded = static_cast<Float>(*found);
    if (!is_inside(static_cast<double>(rounded), range)) return is(value);
    into = rounded;
    return std::nullopt;
  };
  return {.expected = expected_number(range), .set = set, .show = [&into] { return format_number(into); }};
}

Kind string_kind(std::string& into, std::string expected, std::function<bool(const std::string&)> accepts) {
  const auto set = [&into, accepts = std::move(accepts)](const Value& value) -> std::optional<Fault> {
    const auto* found = std::get_if<std::string>(&value.scalar);
    if (found == nullptr || !accepts(*found)) return is(value);
    into = *found;
    return std::nullopt;
  };
  return {.expected = std::move(expected), .set = set, .show = [&into] { return quote(into); }};
}

std::string quoted_names(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? " or " : ", ";
    out += quote(names[i]);
  }
  return out;
}

}  // namespace

Kind integer_as(Range<std::int64_t> range, std::function<void(std::int64_t)> store,
                std::function<std::int64_t()> load) {
  const Range<std::int64_t> all;
  const auto set = [range, store = std::move(store)](const Value& value) -> std::optional<Fault> {
    const auto* found = std::get_if<std::int64_t>(&value.scalar);
    if (found == nullptr || *found < range.least || *found > range.most) return is(value);
    store(*found);
    return std::nullopt;
  };
  return {.expected = range_text("an integer", range.least == all.least ? "" : std::to_string(range.least),
                                 range.most == all.most ? "" : std::to_string(range.most)),
          .set = set,
          .show = [load = std::move(load)] { return std::to_string(load()); }};
}

Kind number(double& into, NumberRange range) { return number_as(into, range); }
Kind number(float& into, NumberRange range) { return number_as(into, range); }

Kind flag(bool& into) {
  const auto set = [&into](const Value& value) -> std::optional<Fault> {
    const auto* found = std::get_if<bool>(&value.scalar);
    if (found == nullptr) return is(value);
    into = *found;
    return std::nullopt;
  };
  return {.expected = "true or false", .set = set, .show = [&into] { return into ? "true" : "false"; }};
}

Kind text(std::string& into) {
  return string_kind(into, "a string", [](const std::string&) { return true; });
}

Kind name(std::string& into) {
  return string_kind(into, "a name of 1 to 64 of a-z, 0-9, \".\", \"_\" and \"-\", not beginning with \".\" or \"-\"",
                     is_valid_name);
}

Kind choice_of(Choices choices) {
  const auto names = choices.names;
  const auto set = [names, store = choices.store](const Value& value) -> std::optional<Fault> {
    Fault fault = is(value);
    const auto* found = std::get_if<std::string>(&value.scalar);
    if (found == nullptr) return fault;
    const auto at = std::ranges::find(names, *found);
    if (at == names.end()) {
      const std::string near = nearest(*found, names);
      if (!near.empty()) fault.meant = quote(near);
      return fault;
    }
    store(static_cast<std::size_t>(at - names.begin()));
    return std::nullopt;
  };
  const auto show = [names, load = choices.load] {
    const std::size_t i = load();
    return i < names.size() ? quote(names[i]) : quote("");
  };
  return {.expected = quoted_names(names), .set = set, .show = show};
}

Kind one_of(std::string& into, std::vector<std::string> names) {
  Choices choices;
  choices.names = names;
  choices.store = [&into, names](std::size_t i) { into = names[i]; };
  choices.load = [&into, names] { return static_cast<std::size_t>(std::ranges::find(names, into) - names.begin()); };
  return choice_of(std::move(choices));
}

Kind log_level(LogLevel& into) {
  return choice<LogLevel>(
      into,
      {{"debug", LogLevel::debug}, {"info", LogLevel::info}, {"warn", LogLevel::warn}, {"error", LogLevel::error}});
}

Kind bits(std::uint64_t& into) {
  const auto set = [&into](const Value& value) -> std::optional<Fault> {
    const auto* found = std::get_if<std::string>(&value.scalar);
    if (found == nullptr || found->size() != 16) return is(value);
    std::uint64_t parsed = 0;
    const auto [end, error] = std::from_chars(found->data(), found->data() + found->size(), parsed, 16);
    if (error != std::errc() || end != found->data() + found->size()) return is(value);
    into = parsed;
    return std::nullopt;
  };
  return {.expected = "a string of 16 hexadecimal digits", .set = set, .show = [&into] { return quote(to_hex(into)); }};
}

Kind duration(Duration& into, Range<Duration> range) {
  const auto set = [&into, range](const Value& value) -> std::optional<Fault> {
    const auto* found = std::get_if<std::string>(&value.scalar);
    const auto parsed = found != nullptr ? parse_duration(*found) : std::nullopt;
    if (!parsed || *parsed < range.least || *parsed > range.most) return is(value);
    into = *parsed;
    return std::nullopt;
  };
  const std::string span = range_text("a duration", range.least == Duration(0) ? "" : format_duration(range.least),
                                      range.most == Duration::max() ? "" : format_duration(range.most));
  return {.expected = span + R"( such as "30s", "1500ms" or "5m")", .set = set, .show = [&into] {
            return quote(format_duration(into));
          }};
}

Kind byte_size(std::uint64_t& into, Range<std::uint64_t> range) {
  const auto set = [&into, range](const Value& value) -> std::optional<Fault> {
    std::optional<std::uint64_t> parsed;
    if (const auto* v = std::get_if<std::string>(&value.scalar)) parsed = parse_byte_size(*v);
    if (const auto* v = std::get_if<std::int64_t>(&value.scalar); v != nullptr && *v >= 0) {
      parsed = static_cast<std::uint64_t>(*v);
    }
    if (!parsed || *parsed < range.least || *parsed > range.most) return is(value);
    into = *parsed;
    return std::nullopt;
  };
  const bool has_most = range.most != std::numeric_limits<std::uint64_t>::max();
  const std::string span = range_text("a size", range.least == 0 ? "" : format_byte_size(range.least),
                                      has_most ? format_byte_size(range.most) : "");
  return {.expected = span + R"( such as "64MiB", or bytes)", .set = set, .show = [&into] {
            return quote(format_byte_size(into));
          }};
}

}  // namespace gleaner::config
