#include "common/error.hpp"

namespace gleaner {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::bad_input: return "bad input";
    case ErrorCode::peer_fault: return "fault of the far side";
    case ErrorCode::retry: return "try again later";
    case ErrorCode::no_space: return "no space";
    case ErrorCode::corrupt: return "corrupt";
    case ErrorCode::conflict: return "conflict";
    case ErrorCode::not_found: return "not found";
    case ErrorCode::fatal: return "fatal";
  }
  return "unknown";
}

}  // namespace gleaner
