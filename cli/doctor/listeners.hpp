#pragma once
// Which process listens on a TCP port, as far as /proc tells this user.

#include <cstdint>
#include <string>

namespace gleaner::cli {

// "gleaner-coordin (process 123)", or "" when it is not known.
std::string listener_on(std::uint16_t port);

}  // namespace gleaner::cli
