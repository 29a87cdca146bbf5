#include "config/reading.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/ids.hpp"
#include "common/text.hpp"
#include "config/units.hpp"

namespace gleaner::config {
namespace {

std::string dotted(const std::string& section, const std::string& key) {
  return section.empty() ? key : section + "." + key;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

bool is_called(const Key& key, const std::string& name) { return key.name == name || contains(key.aliases, name); }

std::vector<std::string> all_names(const std::vector<Key>& keys) {
  std::vector<std::string> names;
  for (const Key& key : keys) {
    names.push_back(key.name);
    names.insert(names.end(), key.aliases.begin(), key.aliases.end());
  }
  return names;
}

std::string did_you_mean(const std::string& near) {
  return near.empty() ? "" : fmt::format("; did you mean {}?", near);
}

std::string with_expected(const Fault& fault, const Kind& kind) {
  return fmt::format("{}, expected {}{}", fault.what, kind.expected, did_you_mean(fault.meant));
}

const Node* child_of(const Node& node, std::string_view name) {
  const auto at = std::ranges::find(node.children, name, &Node::name);
  return at == node.children.end() ? nullptr : &*at;
}

std::filesystem::path folder_of(const std::string& path) {
  std::error_code code;
  const auto absolute = std::filesystem::absolute(path.empty() ? "." : path, code);
  return code ? std::filesystem::path("/") : absolute.parent_path();
}

}  // namespace

Reading::Reading(std::string_view toml_text, std::string path) : path_(std::move(path)), folder_(folder_of(path_)) {
  Document document = parse_document(toml_text);
  root_ = std::move(document.root);
  has_syntax_mistakes_ = !document.mistakes.empty();
  for (const SyntaxMistake& mistake : document.mistakes) {
    lines_.push_back(
        {mistake.line, fmt::format("{}:{}:{}: syntax: {}", path_, mistake.line, mistake.column, mistake.text)});
  }
}

std::string Reading::peek(std::string_view section, std::string_view key, std::string fallback) const {
  const Node* table = child_of(root_, section);
  const Node* node = table == nullptr ? nullptr : child_of(*table, key);
  const auto* found = node == nullptr ? nullptr : std::get_if<std::string>(&node->value.scalar);
  return found == nullptr ? std::move(fallback) : *found;
}

void Reading::bind(const Schema& schema) {
  schema_ = &schema;
  for (const Section& section : schema.sections) {
    const Node* node = child_of(root_, section.name);
    if (node != nullptr && !node->is_table) {
      add(node->line, section.name,
          fmt::format("is {}, expected the section [{}]", describe(node->value), section.name));
      continue;
    }
    bind_section(section.name, section.keys, node);
  }
  for (const NamedSections& named : schema.named) {
    if (const Node* node = child_of(root_, named.name)) bind_named(named, *node);
  }
  for (const Node& node : root_.children) unknown_at_top(node);
  schema_ = nullptr;
}

void Reading::bind_section(const std::string& path, const std::vector<Key>& keys, const Node* node) {
  if (node != nullptr) {
    section_lines_[path] = node->line;
    for (const Node& child : node->children) {
      const auto key = std::ranges::find_if(keys, [&](const Key& k) { return is_called(k, child.name); });
      if (key == keys.end()) {
        unknown_key(path, keys, child);
      } else {
        set_key(path, *key, child);
      }
    }
  }
  finish_keys(path, keys);
}

void Reading::set_key(const std::string& path, const Key& key, const Node& node) {
  const std::string id = dotted(path, key.name);
  const std::string written = dotted(path, node.name);
  if (const auto earlier = places_.find(id); earlier != places_.end()) {
    add(node.line, written,
        fmt::format("is another name of {}, which line {} gives as {}; keep one of them", id, earlier->second.line,
                    earlier->second.written));
    return;
  }
  places_[id] = {node.line, written};
  Value value = node.value;
  if (node.is_table) value.other = "a table";
  if (const auto fault = key.kind.set(value)) {
    faulty_[id] = true;
    add(node.line, written, with_expected(*fault, key.kind));
  }
}

void Reading::finish_keys(const std::string& path, const std::vector<Key>& keys) {
  for (const Key& key : keys) {
    const std::string id = dotted(path, key.name);
    const Place place = place_of(id);
    if (key.need != Need::optional && !given(id)) {
      faulty_[id] = true;
      // The line that gave it may be one of those that could not be read.
      if (complete()) add(place.line, id, "is missing, expected " + key.kind.expected);
    } else if (key.need == Need::required && sound({id}) && key.kind.show() == quote("")) {
      faulty_[id] = true;
      add(place.line, place.written, "is empty, expected " + key.kind.expected);
    } else if (key.kind.settle && sound({id})) {
      if (const auto fault = key.kind.settle(folder_)) {
        faulty_[id] = true;
        add(place.line, place.written, with_expected(*fault, key.kind));
      }
    }
  }
}

void Reading::bind_named(const NamedSections& named, const Node& node) {
  section_lines_[named.name] = node.line;
  if (!node.is_table) {
    faulty_[named.name] = true;
    add(node.line, named.name, fmt::format("is {}, expected sections [{}.NAME]", describe(node.value), named.name));
    return;
  }
  for (const Node& child : node.children) {
    const std::string path = dotted(named.name, child.name);
    if (!child.is_table) {
      faulty_[named.name] = true;
      add(child.line, path, fmt::format("is {}, expected a section [{}]", describe(child.value), path));
    } else if (!is_valid_name(child.name)) {
      faulty_[named.name] = true;
      add(child.line, named.name + "." + quote(child.name),
          "is no usable name, expected 1 to 64 of a-z, 0-9, \".\", \"_\" and \"-\", not beginning with \".\" or \"-\"");
    } else {
      bind_section(path, named.keys(child.name), &child);
    }
  }
}

void Reading::unknown_key(const std::string& path, const std::vector<Key>& keys, const Node& node) {
  std::string what = "unknown key";
  for (const Section& section : schema_->sections) {
    if (std::ranges::any_of(section.keys, [&](const Key& key) { return is_called(key, node.name); })) {
      add(node.line, dotted(path, node.name), fmt::format("{} here; it belongs in [{}]", what, section.name));
      return;
    }
  }
  const auto names = all_names(keys);
  if (const std::string near = nearest(node.name, names); !near.empty()) {
    what += did_you_mean(near);
  } else {
    std::vector<std::string> own;
    for (const Key& key : keys) own.push_back(key.name);
    what += fmt::format("; [{}] has {}", path, join_names(own));
  }
  add(node.line, dotted(path, node.name), std::move(what));
}

void Reading::unknown_at_top(const Node& node) {
  std::vector<std::string> sections;
  for (const Section& section : schema_->sections) {
    sections.push_back(section.name);
    if (node.is_table || section.name == node.name) continue;
    if (std::ranges::any_of(section.keys, [&](const Key& key) { return is_called(key, node.name); })) {
      add(node.line, node.name, fmt::format("stands in no section; it belongs in [{}]", section.name));
      return;
    }
  }
  for (const NamedSections& named : schema_->named) sections.push_back(named.name);
  if (contains(sections, node.name)) return;
  const std::string near = nearest(node.name, sections);
  const std::string hint = near.empty() ? "; there are " + join_names(sections) : did_you_mean("[" + near + "]");
  add(node.line, node.name, (node.is_table ? "unknown section" : "unknown key") + hint);
}

bool Reading::sound(std::initializer_list<std::string> keys) const {
  return std::ranges::none_of(keys, [&](const std::string& key) { return faulty_.contains(key); });
}

void Reading::mistake(const std::string& key, std::string what) {
  faulty_[key] = true;
  const Place place = place_of(key);
  add(place.line, place.written, std::move(what));
}

Status Reading::status() const {
  if (lines_.empty()) return {};
  std::vector<std::pair<std::uint32_t, std::size_t>> order;
  for (std::size_t i = 0; i < lines_.size(); ++i) order.emplace_back(lines_[i].line, i);
  std::ranges::sort(order);
  std::string message;
  for (const auto& [line, i] : order) message += (message.empty() ? "" : "\n") + lines_[i].text;
  return fail(ErrorCode::bad_input, std::move(message));
}

void Reading::add(std::uint32_t line, std::string_view key, std::string what) {
  lines_.push_back({line, fmt::format("{}:{}: {}: {}", path_, line, key, what)});
}

Reading::Place Reading::place_of(const std::string& key) const {
  if (const auto place = places_.find(key); place != places_.end()) return place->second;
  // The longest section that the key lies in, for names with dots in them.
  for (auto dot = key.size(); dot != std::string::npos && dot > 0; dot = key.rfind('.', dot - 1)) {
    if (const auto section = section_lines_.find(key.substr(0, dot)); section != section_lines_.end()) {
      return {section->second, key};
    }
  }
  return {1, key};
}

}  // namespace gleaner::config
