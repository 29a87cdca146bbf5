#include "config/document.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <tuple>

#include "config/units.hpp"

namespace gleaner::config {
namespace {

// Mistakes of syntax reported at once; each costs one more parse.
constexpr std::size_t kSyntaxMistakesMax = 20;

std::string_view name_of(toml::node_type type) {
  switch (type) {
    case toml::node_type::array: return "an array";
    case toml::node_type::date: return "a date";
    case toml::node_type::time: return "a time";
    case toml::node_type::date_time: return "a date with time";
    case toml::node_type::table: return "a table";
    default: return "no value";
  }
}

Value to_value(const toml::node& node) {
  if (const auto* v = node.as_boolean()) return {v->get(), {}};
  if (const auto* v = node.as_integer()) return {v->get(), {}};
  if (const auto* v = node.as_floating_point()) return {v->get(), {}};
  if (const auto* v = node.as_string()) return {v->get(), {}};
  return {std::monostate{}, std::string(name_of(node.type()))};
}

// Tables deeper than any section can be are left as a value that no key takes.
constexpr int kTableDepthMax = 3;

Node to_node(std::string name, const toml::node& from, int depth) {
  Node node{.name = std::move(name), .line = std::max<std::uint32_t>(1, from.source().begin.line)};
  const auto* table = from.as_table();
  if (table == nullptr || depth == kTableDepthMax) {
    node.value = to_value(from);
    return node;
  }
  node.is_table = true;
  for (const auto& [key, child] : *table) {
    node.children.push_back(to_node(std::string(key.str()), child, depth + 1));
    auto& made = node.children.back();
    if (key.source().begin.line > 0) made.line = key.source().begin.line;
  }
  std::ranges::sort(node.children, {}, [](const Node& child) { return std::tie(child.line, child.name); });
  return node;
}

std::optional<toml::table> try_parse(const std::string& text, SyntaxMistake& mistake) {
  try {
    return toml::parse(std::string_view(text));
  } catch (const toml::parse_error& error) {
    mistake = {.line = std::max<std::uint32_t>(1, error.source().begin.line),
               .column = std::max<std::uint32_t>(1, error.source().begin.column),
               .text = std::string(error.description())};
    std::ranges::replace(mistake.text, '\n', ' ');
    constexpr std::string_view kPrefix = "Error while parsing ";
    if (mistake.text.starts_with(kPrefix)) mistake.text.replace(0, kPrefix.size(), "in ");
    return std::nullopt;
  }
}

// Empties a line; false when that would make what follows mean something else: a section's header, or no such line.
bool blank_line(std::string& text, std::uint32_t line) {
  std::size_t begin = 0;
  for (std::uint32_t i = 1; i < line; ++i) {
    begin = text.find('\n', begin);
    if (begin == std::string::npos) return false;
    ++begin;
  }
  const std::size_t end = std::min(text.find('\n', begin), text.size());
  const auto content = std::string_view(text).substr(begin, end - begin);
  const auto first = content.find_first_not_of(" \t\r");
  if (first == std::string_view::npos || content[first] == '[') return false;
  text.erase(begin, end - begin);
  return true;
}

}  // namespace

std::string describe(const Value& value) {
  if (const auto* v = std::get_if<bool>(&value.scalar)) return *v ? "true" : "false";
  if (const auto* v = std::get_if<std::int64_t>(&value.scalar)) return fmt::format("the integer {}", *v);
  if (const auto* v = std::get_if<double>(&value.scalar)) return "the number " + format_number(*v);
  if (const auto* v = std::get_if<std::string>(&value.scalar)) return "the string " + quote(*v);
  return value.other;
}

Document parse_document(std::string_view text) {
  Document document;
  document.root.is_table = true;
  std::string left(text);
  while (document.mistakes.size() < kSyntaxMistakesMax) {
    SyntaxMistake mistake;
    if (const auto table = try_parse(left, mistake)) {
      document.root = to_node("", *table, 0);
      return document;
    }
    // A second mistake that is not further down is a consequence of the first.
    if (!document.mistakes.empty() && mistake.line <= document.mistakes.back().line) return document;
    document.mistakes.push_back(mistake);
    if (!blank_line(left, mistake.line)) return document;
  }
  return document;
}

Result<std::string> read_file(const std::string& path) {
  std::error_code code;
  const auto absolute = std::filesystem::absolute(path, code).lexically_normal();
  const auto unreadable = [&](std::string_view why) {
    return fail(ErrorCode::bad_input, fmt::format("{}: cannot be read: {} (tried {})", path, why, absolute.string()));
  };
  if (std::filesystem::is_directory(absolute, code)) return unreadable("it is a directory");
  errno = 0;
  std::ifstream file(absolute, std::ios::binary);
  if (!file) return unreadable(std::strerror(errno == 0 ? EIO : errno));
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return unreadable(std::strerror(EIO));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMaxFileBytes) return unreadable(fmt::format("it has more than {} bytes", kMaxFileBytes));
  return text;
}

}  // namespace gleaner::config
