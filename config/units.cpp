#include "config/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <span>

namespace gleaner::config {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t factor;
};

constexpr std::array<Unit, 7> kTimes = {{{"d", 86'400'000'000'000},
                                         {"h", 3'600'000'000'000},
                                         {"m", 60'000'000'000},
                                         {"s", 1'000'000'000},
                                         {"ms", 1'000'000},
                                         {"us", 1'000},
                                         {"ns", 1}}};
constexpr std::array<Unit, 9> kSizes = {{{"TiB", std::int64_t{1} << 40},
                                         {"GiB", std::int64_t{1} << 30},
                                         {"MiB", std::int64_t{1} << 20},
                                         {"KiB", std::int64_t{1} << 10},
                                         {"TB", 1'000'000'000'000},
                                         {"GB", 1'000'000'000},
                                         {"MB", 1'000'000},
                                         {"kB", 1'000},
                                         {"B", 1}}};

std::optional<std::int64_t> parse_with_unit(std::string_view text, std::span<const Unit> units) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || count < 0) return std::nullopt;
  std::string_view name = text.substr(static_cast<std::size_t>(end - text.data()));
  if (name.starts_with(' ')) name.remove_prefix(1);
  const auto unit = std::ranges::find(units, name, &Unit::name);
  if (unit == units.end() || count > std::numeric_limits<std::int64_t>::max() / unit->factor) return std::nullopt;
  return count * unit->factor;
}

std::string format_with_unit(std::int64_t value, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (value != 0 && value % unit.factor == 0) return fmt::format("{}{}", value / unit.factor, unit.name);
  }
  return "0";
}

std::string with_point(std::string text) {
  if (text.find_first_of(".einf") == std::string::npos) text += ".0";
  return text;
}

bool is_host(std::string_view host, bool bracketed) {
  const std::string_view extra = bracketed ? ":.%" : ".-_";
  return !host.empty() && std::ranges::all_of(host, [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || extra.contains(c);
  });
}

}  // namespace

std::optional<Duration> parse_duration(std::string_view text) {
  const auto ns = parse_with_unit(text, kTimes);
  return ns ? std::optional(Duration(*ns)) : std::nullopt;
}

std::string format_duration(Duration duration) {
  return duration == Duration(0) ? "0s" : format_with_unit(duration.count(), kTimes);
}

std::optional<std::uint64_t> parse_byte_size(std::string_view text) {
  const auto bytes = parse_with_unit(text, kSizes);
  return bytes ? std::optional(static_cast<std::uint64_t>(*bytes)) : std::nullopt;
}

std::string format_byte_size(std::uint64_t bytes) {
  if (bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return fmt::format("{}B", bytes);
  return bytes == 0 ? "0B" : format_with_unit(static_cast<std::int64_t>(bytes), kSizes);
}

std::optional<HostAndPort> parse_endpoint(std::string_view text, std::string& fault) {
  HostAndPort result;
  std::string_view rest = text;
  const bool bracketed = text.starts_with('[');
  if (bracketed) {
    const auto close = text.find(']');
    if (close == std::string_view::npos) {
      fault = "whose bracket is not closed";
      return std::nullopt;
    }
    result.host = text.substr(1, close - 1);
    rest = text.substr(close + 1);
  } else {
    if (std::ranges::count(text, ':') > 1) {
      fault = "whose IPv6 address stands in no brackets";
      return std::nullopt;
    }
    const auto colon = std::min(text.find(':'), text.size());
    result.host = text.substr(0, colon);
    rest = text.substr(colon);
  }
  if (!is_host(result.host, bracketed) || (bracketed && !result.host.contains(':'))) {
    fault = result.host.empty() ? "which names no host" : "whose host is no name and no address";
    return std::nullopt;
  }
  if (rest.empty()) return result;
  const std::string_view digits = rest.substr(1);
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (rest.front() != ':' || error != std::errc() || end != digits.data() + digits.size()) {
    fault = "whose port is no number from 0 to 65535";
    return std::nullopt;
  }
  result.port = port;
  return result;
}

std::string format_endpoint(std::string_view host, std::uint16_t port) {
  return host.contains(':') ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

std::string format_number(double value) { return with_point(fmt::format("{}", value)); }
std::string format_number(float value) { return with_point(fmt::format("{}", value)); }

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04X}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace gleaner::config
