#pragma once
// Reading one file: collects every mistake, each as one line `FILE:LINE: KEY: what is wrong, expected ...; did you mean
// ...?`, and gives them all in one Error (bad_input). Use: make, bind(schema), own checks with mistake(), status().

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "config/schema.hpp"

namespace gleaner::config {

class Reading {
 public:
  // path is for messages, and its folder is what relative paths are relative to.
  Reading(std::string_view toml_text, std::string path);

  // The string of a key before anything is bound; fallback when it is not there or no string.
  std::string peek(std::string_view section, std::string_view key, std::string fallback) const;

  // Stores every value into the variables of its key. Call once.
  void bind(const Schema& schema);

  // Keys are named "section.key", by the key's own name, whatever alias the file uses.
  bool given(const std::string& key) const { return places_.contains(key); }
  // Whether none of the keys has a mistake: checks between keys are made only then.
  bool sound(std::initializer_list<std::string> keys) const;

  // False when lines could not be read: what is missing may have stood in them.
  bool complete() const { return !has_syntax_mistakes_; }

  // Adds a mistake at a key, or at a section when the key is not in the file.
  void mistake(const std::string& key, std::string what);

  // All mistakes in the order of their lines, or success.
  Status status() const;

 private:
  struct Place {
    std::uint32_t line = 1;
    std::string written;  // the key as the file spells it
  };
  struct Line {
    std::uint32_t line = 1;
    std::string text;
  };

  void bind_section(const std::string& path, const std::vector<Key>& keys, const Node* node);
  void set_key(const std::string& path, const Key& key, const Node& node);
  void finish_keys(const std::string& path, const std::vector<Key>& keys);
  void bind_named(const NamedSections& named, const Node& node);
  void unknown_key(const std::string& path, const std::vector<Key>& keys, const Node& node);
  void unknown_at_top(const Node& node);
  void add(std::uint32_t line, std::string_view key, std::string what);
  Place place_of(const std::string& key) const;

  std::string path_;
  std::filesystem::path folder_;
  Node root_;
  bool has_syntax_mistakes_ = false;
  const Schema* schema_ = nullptr;
  std::map<std::string, Place> places_;  // keys that are in the file
  std::map<std::string, std::uint32_t, std::less<>> section_lines_;
  std::map<std::string, bool> faulty_;
  std::vector<Line> lines_;
};

}  // namespace gleaner::config
