#pragma once
// Addresses as people write them: "host:port", "192.0.2.1:4433", "[::1]:4433".

#include <cstdint>
#include <string>
#include <string_view>

#include "common/error.hpp"

namespace gleaner {

struct HostPort {
  std::string host;  // without brackets
  std::uint16_t port = 0;

  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// Errors: bad_input, with the text and an example.
Result<HostPort> parse_host_port(std::string_view text);

// The inverse: an IPv6 address gets brackets.
std::string to_text(std::string_view host, std::uint16_t port);

}  // namespace gleaner
