#pragma once
// What a key takes: a Kind stores a value into the variable that it was made with, or says what is wrong with it. The
// variable's value before reading is the default. The variable must outlive the Kind.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.hpp"
#include "common/log.hpp"
#include "config/document.hpp"

namespace gleaner::config {

struct Fault {
  std::string what;   // "is the string \"a\"": goes before ", expected ..."
  std::string meant;  // what was probably meant, or ""
};

struct Kind {
  std::string expected;  // "an integer from 1 to 9"
  std::function<std::optional<Fault>(const Value&)> set;
  std::function<std::string()> show;  // the variable as TOML
  // Run once after reading, given or not: paths become absolute and are checked. May be empty.
  std::function<std::optional<Fault>(const std::filesystem::path& folder)> settle = {};
};

template <class T>
struct Range {
  T least = std::numeric_limits<T>::lowest();
  T most = std::numeric_limits<T>::max();
};

enum class Excluded { none, least, most };  // which end of a range of numbers does not belong to it

struct NumberRange {
  double least = std::numeric_limits<double>::lowest();
  double most = std::numeric_limits<double>::max();
  Excluded excluded = Excluded::none;
};

Kind integer_as(Range<std::int64_t> range, std::function<void(std::int64_t)> store, std::function<std::int64_t()> load);

// A range beyond 2^63 - 1 ends there: TOML has no larger integers.
template <std::integral T>
Kind integer(T& into, Range<T> range = {}) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  const auto narrow = [](T v) { return std::in_range<std::int64_t>(v) ? static_cast<std::int64_t>(v) : kMost; };
  return integer_as(
      {narrow(range.least), narrow(range.most)}, [&into](std::int64_t v) { into = static_cast<T>(v); },
      [&into, narrow] { return narrow(into); });
}

Kind number(double& into, NumberRange range = {});
Kind number(float& into, NumberRange range = {});  // checked again after rounding to float
Kind flag(bool& into);
Kind text(std::string& into);
Kind name(std::string& into);  // is_valid_name()
Kind one_of(std::string& into, std::vector<std::string> names);
Kind bits(std::uint64_t& into);  // a string of 16 hexadecimal digits
Kind duration(Duration& into, Range<Duration> range = {Duration(0), Duration::max()});
Kind byte_size(std::uint64_t& into, Range<std::uint64_t> range = {});  // "64MiB", or an integer of bytes

// An enumeration by the names of its values; an unknown name lists them.
struct Choices {
  std::vector<std::string> names;
  std::function<void(std::size_t)> store;
  std::function<std::size_t()> load;  // names.size() for a value without a name
};
Kind choice_of(Choices choices);

template <class E>
Kind choice(E& into, std::vector<std::pair<std::string, E>> table) {
  Choices choices;
  for (const auto& row : table) choices.names.push_back(row.first);
  choices.store = [&into, table](std::size_t i) { into = table[i].second; };
  choices.load = [&into, table] {
    std::size_t i = 0;
    while (i < table.size() && table[i].second != into) ++i;
    return i;
  };
  return choice_of(std::move(choices));
}

Kind log_level(LogLevel& into);

}  // namespace gleaner::config
