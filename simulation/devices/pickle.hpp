#pragma once
// Reads the part of Python's pickle format (protocols 0 to 4) that dictionaries, lists, numbers and strings are written
// in. Nothing in a pickle is run: an opcode that would make an object of a class is refused. Memory is at most about a
// hundred times the input, as every opcode makes at most one value and nothing is copied deep. Format: the comments of
// pickletools.py in CPython.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/error.hpp"

namespace gleaner::simulation::pickle {

struct Text {  // index into Document::texts
  std::uint32_t index = 0;
};
struct List {  // into lists
  std::uint32_t index = 0;
};
struct Dict {  // into dicts
  std::uint32_t index = 0;
};

// monostate is None. The same list or dictionary may be reached in several ways, and may contain itself.
using Value = std::variant<std::monostate, bool, std::int64_t, double, Text, List, Dict>;

struct Document {
  Value root;
  std::vector<std::string> texts;
  std::vector<std::vector<Value>> lists;
  std::vector<std::vector<std::pair<Value, Value>>> dicts;  // in the order of the file

  const std::string* text(const Value& value) const;
  const std::vector<Value>* list(const Value& value) const;
  const std::vector<std::pair<Value, Value>>* dict(const Value& value) const;

  // "a list", "the number 3", "\"abc\"": for messages.
  std::string describe(const Value& value) const;
};

// Errors (bad_input): "byte N: ..." with what stands there.
Result<Document> load(std::string_view bytes);

}  // namespace gleaner::simulation::pickle
