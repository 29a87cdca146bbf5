#pragma once
// Files that appear whole or not at all and never replace another.

#include <string>
#include <string_view>

#include "common/error.hpp"

namespace gleaner::pki {

enum class FileMode { secret, readable };  // 0600, 0644

// Errors: conflict when there is such a file.
Status refuse_existing(const std::string& path);

// Written next to path, forced to disk, then named; a file that appeared meanwhile is a conflict.
Status write_new_file(const std::string& path, std::string_view content, FileMode mode);

void remove_file(const std::string& path);

}  // namespace gleaner::pki
