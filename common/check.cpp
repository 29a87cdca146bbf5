#include "common/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace gleaner {

void check_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "gleaner: broken invariant %s at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace gleaner
