#pragma once
// What the machine offers: disk, files, processors, clock.

#include <cstdint>
#include <string>

#include "cli/doctor/findings.hpp"

namespace gleaner::cli {

void check_clock(std::int64_t now_unix_s, Findings& findings);
void check_backend(const std::string& name, Findings& findings);
void check_open_files(std::uint32_t connections_max, Findings& findings);

// That a file or folder can be made at path, or in it, and how much space there is.
void check_space_for(const std::string& path, Findings& findings);

// Lock, schema, pages, checksums and the log of a database; nothing is changed.
void check_database_file(const std::string& path, Findings& findings);

}  // namespace gleaner::cli
