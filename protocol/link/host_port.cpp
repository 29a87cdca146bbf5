#include "protocol/link/host_port.hpp"

#include <fmt/format.h>

#include <charconv>

namespace gleaner {

Result<HostPort> parse_host_port(std::string_view text) {
  const auto refuse = [text] {
    return fail(ErrorCode::bad_input,
                fmt::format("\"{}\" is no address: write host:port, like coordinator.example.org:4433, "
                            "192.0.2.1:4433 or [::]:4433",
                            text));
  };
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return refuse();
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find_first_of(":[]") != std::string_view::npos) {
    return refuse();  // an IPv6 address without brackets: where does the port begin?
  }
  unsigned port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  const bool is_port =
      error == std::errc() && end == digits.data() + digits.size() && !digits.empty() && port <= 65'535;
  if (host.empty() || !is_port) return refuse();
  return HostPort{.host = std::string(host), .port = static_cast<std::uint16_t>(port)};
}

std::string to_text(std::string_view host, std::uint16_t port) {
  return host.find(':') == std::string_view::npos ? fmt::format("{}:{}", host, port)
                                                  : fmt::format("[{}]:{}", host, port);
}

}  // namespace gleaner
