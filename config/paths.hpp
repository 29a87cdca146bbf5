#pragma once
// Kinds for what lies outside the file: paths and endpoints. A relative path is relative to the file's folder and is
// absolute after reading. "" is a mistake where there is a default; else it stays "" and is not checked.

#include <cstdint>
#include <string>

#include "config/kind.hpp"

namespace gleaner::config {

Kind readable_file(std::string& into);
Kind readable_directory(std::string& into);
Kind file_to_write(std::string& into);       // it can be opened for writing, or its folder can be made
Kind directory_to_write(std::string& into);  // can be written to, or made
Kind unix_socket(std::string& into);         // at most 107 bytes once absolute

enum class Ports { any_free_too, given };  // whether port 0, "any free one", is allowed

// The port may be left out; it is then the variable's value before reading.
Kind endpoint(std::string& host, std::uint16_t& port, Ports ports);

}  // namespace gleaner::config
