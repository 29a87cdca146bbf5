#pragma once
// The keys of one kind of file as a table. It is read by Reading and printed by to_markdown: what is documented is what
// is accepted.

#include <functional>
#include <string>
#include <vector>

#include "config/kind.hpp"

namespace gleaner::config {

enum class Need { optional, present, required };  // present: must be there; required: and is not empty

struct Key {
  std::string name;
  Kind kind;
  std::string description;  // one line
  Need need = Need::optional;
  std::vector<std::string> aliases = {};
  std::string default_note = {};  // for the reference, where the variable's value is not the default
};

struct Section {
  std::string name;
  std::string description;
  std::vector<Key> keys;
};

// Sections [name.ENTRY] with entries of the user's choice; keys makes an entry's variables and their keys.
struct NamedSections {
  std::string name;
  std::string description;
  std::function<std::vector<Key>(const std::string& entry)> keys;
};

struct Schema {
  std::vector<Section> sections;
  std::vector<NamedSections> named = {};
};

}  // namespace gleaner::config
