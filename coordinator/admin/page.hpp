#pragma once
// What a coordinator does, as one HTML page that needs nothing else: no script, nothing from elsewhere, read-only.
// Pure.

#include <string>
#include <string_view>

#include "coordinator/admin/backend.hpp"

namespace gleaner::admin {

std::string to_html(const Overview& seen);

// Text for between tags and within quotation marks.
std::string escape_html(std::string_view text);

}  // namespace gleaner::admin
