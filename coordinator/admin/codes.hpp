#pragma once
// How an error's code is written in JSON and which HTTP status goes with it; read by both ends.

#include <array>
#include <string_view>

#include "common/error.hpp"

namespace gleaner::admin {

struct CodeRow {
  ErrorCode code;
  std::string_view name;
  unsigned http_status;
};

inline constexpr std::array<CodeRow, 8> kCodes = {{{ErrorCode::bad_input, "bad_input", 400},
                                                   {ErrorCode::peer_fault, "peer_fault", 400},
                                                   {ErrorCode::retry, "retry", 503},
                                                   {ErrorCode::no_space, "no_space", 507},
                                                   {ErrorCode::corrupt, "corrupt", 500},
                                                   {ErrorCode::conflict, "conflict", 409},
                                                   {ErrorCode::not_found, "not_found", 404},
                                                   {ErrorCode::fatal, "fatal", 500}}};

constexpr const CodeRow& row_of(ErrorCode code) {
  for (const CodeRow& row : kCodes) {
    if (row.code == code) return row;
  }
  return kCodes.back();
}

// fatal for a name that a later release may have added.
constexpr ErrorCode code_named(std::string_view name) {
  for (const CodeRow& row : kCodes) {
    if (row.name == name) return row.code;
  }
  return ErrorCode::fatal;
}

}  // namespace gleaner::admin
