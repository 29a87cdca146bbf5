#pragma once
// How durations, sizes, endpoints, numbers and strings are written in a file, and read again to the last bit.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/clock.hpp"

namespace gleaner::config {

// "30s", "1500ms", "5m": an integer and one of ns, us, ms, s, m, h, d. Nothing for everything else and beyond 292
// years.
std::optional<Duration> parse_duration(std::string_view text);
std::string format_duration(Duration duration);  // the largest unit that is exact

// "64MiB", "2GB", "100B": an integer and one of B, kB, MB, GB, TB, KiB, MiB, GiB, TiB. Nothing beyond 2^63 - 1.
std::optional<std::uint64_t> parse_byte_size(std::string_view text);
std::string format_byte_size(std::uint64_t bytes);

struct HostAndPort {
  std::string host;  // without brackets
  std::optional<std::uint16_t> port;
};
// "host:port", "10.0.0.1:7433", "[::1]:7433", or a host alone. On failure `fault` says what is wrong.
std::optional<HostAndPort> parse_endpoint(std::string_view text, std::string& fault);
std::string format_endpoint(std::string_view host, std::uint16_t port);

// The shortest text that reads back to the same bits, always with a point or an exponent.
std::string format_number(double value);
std::string format_number(float value);

// A TOML basic string with its quotes. text is UTF-8.
std::string quote(std::string_view text);

}  // namespace gleaner::config
