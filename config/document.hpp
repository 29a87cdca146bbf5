#pragma once
// A TOML text as a tree of values with their lines, so that nothing else depends on the TOML library.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/error.hpp"

namespace gleaner::config {

inline constexpr std::size_t kMaxFileBytes = 1U << 20;

struct Value {
  // monostate: something that no key takes, named by other ("an array", "a date", ...).
  std::variant<std::monostate, bool, std::int64_t, double, std::string> scalar;
  std::string other;
};

// "the string \"a\"", "the number 0.5", "an array": what a message says that a value is.
std::string describe(const Value& value);

struct Node {
  std::string name;  // the last part of its key
  std::uint32_t line = 1;
  bool is_table = false;
  Value value;                 // of no table
  std::vector<Node> children;  // of a table, in the order of their lines
};

struct SyntaxMistake {
  std::uint32_t line = 1;
  std::uint32_t column = 1;
  std::string text;
};

struct Document {
  Node root;
  std::vector<SyntaxMistake> mistakes;  // not empty: the root lacks what they made unreadable
};

// Goes on after a mistake that is confined to one line, so that as many as possible are found at once.
Document parse_document(std::string_view text);

// The whole file, at most kMaxFileBytes; bad_input names the absolute path that was tried and why it cannot be read.
Result<std::string> read_file(const std::string& path);

}  // namespace gleaner::config
