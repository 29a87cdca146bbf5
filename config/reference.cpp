#include "config/reference.hpp"

#include <fmt/format.h>

namespace gleaner::config {
namespace {

std::string escape_cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '<') out += '\\';
    out += c;
  }
  return out;
}

std::string default_of(const Key& key) {
  if (key.need != Need::optional) return "required";
  if (!key.default_note.empty()) return key.default_note;
  const std::string shown = key.kind.show();
  return shown == "\"\"" ? "none" : "`" + shown + "`";
}

std::string rows(const std::vector<Key>& keys) {
  std::string out = "| key | value | default | meaning |\n|---|---|---|---|\n";
  for (const Key& key : keys) {
    std::string names = "`" + key.name + "`";
    for (const std::string& alias : key.aliases) names += fmt::format(", `{}`", alias);
    out += fmt::format("| {} | {} | {} | {} |\n", names, escape_cell(key.kind.expected), default_of(key),
                       escape_cell(key.description));
  }
  return out;
}

}  // namespace

std::string to_markdown(const Schema& schema, std::string_view heading) {
  std::string out;
  for (const Section& section : schema.sections) {
    out += fmt::format("{} [{}]\n\n{}\n\n{}\n", heading, section.name, section.description, rows(section.keys));
  }
  for (const NamedSections& named : schema.named) {
    out += fmt::format("{} [{}.NAME]\n\n{}\n\n{}\n", heading, named.name, named.description, rows(named.keys("NAME")));
  }
  return out;
}

}  // namespace gleaner::config
