#pragma once
// The ways in which a pickle spells strings; nothing for what is no such string, or is not UTF-8 after reading.

#include <optional>
#include <string>
#include <string_view>

namespace gleaner::simulation::pickle {

std::optional<std::string> checked_utf8(std::string_view bytes);

// Of protocol 0: 'a\'b\n' or "a'b", as repr() writes it; bytes beyond ASCII only as \xNN.
std::optional<std::string> from_python_literal(std::string_view text);

// Of protocol 0: Latin-1 with \uNNNN and \UNNNNNNNN.
std::optional<std::string> from_raw_unicode(std::string_view text);

}  // namespace gleaner::simulation::pickle
