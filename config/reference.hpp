#pragma once
// The documentation of a file, printed from the table that it is read with.

#include <string>
#include <string_view>

#include "config/schema.hpp"

namespace gleaner::config {

// One heading and one table a section, in Markdown; defaults are the present values of the schema's variables. heading
// is the number signs that a section's heading begins with.
std::string to_markdown(const Schema& schema, std::string_view heading);

}  // namespace gleaner::config
