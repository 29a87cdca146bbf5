#pragma once
// Checks of our own invariants. They stay on in release builds, log the place and abort: a broken invariant must not
// reach the disk or the wire. Never for bytes or behaviour of a peer or a user: those get an Error.

namespace gleaner {

[[noreturn]] void check_failed(const char* condition, const char* file, int line) noexcept;

// A named boundary between persisting and telling, where tests kill the process: GLEANER_FAILPOINT=NAME or NAME:N in
// the environment ends it with SIGKILL when the boundary is reached for the Nth time. Costs one load otherwise.
// Thread-safe.
void failpoint(const char* name) noexcept;

}  // namespace gleaner

#define GLEANER_CHECK(condition)                               \
  do {                                                         \
    if (!(condition)) [[unlikely]]                             \
      ::gleaner::check_failed(#condition, __FILE__, __LINE__); \
  } while (false)
