#pragma once
// The tables, as steps from one schema version to the next, and the ids that mark a file as ours. A released step never
// changes; a new version is a new step at the end.

#include <cstdint>
#include <span>

#include "common/error.hpp"
#include "storage/sqlite.hpp"

namespace gleaner {

constexpr std::uint32_t kApplicationId = 0x474c4e52;      // "GLNR": a database that is served
constexpr std::uint32_t kCopyApplicationId = 0x474c4e43;  // "GLNC": a copy made by backup()

struct MigrationStep {
  const char* summary;
  const char* sql;
};

std::span<const MigrationStep> migration_steps();

// What a file is, before anything is done to it.
struct SchemaState {
  std::uint32_t version = 0;
  bool is_new = false;   // nothing in it
  bool is_copy = false;  // made by backup() and not served since
};

// bad_input: not a database of ours, or made by a newer program.
Result<SchemaState> read_schema(Connection& connection, std::span<const MigrationStep> steps);

// Brings the file to the newest version in one transaction; an old one is copied to PATH.schema-N.backup first, where N
// is its version.
Status migrate(Connection& connection, const SchemaState& state, std::span<const MigrationStep> steps);

}  // namespace gleaner
