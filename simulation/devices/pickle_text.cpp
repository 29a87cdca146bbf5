#include "simulation/devices/pickle_text.hpp"

#include <charconv>
#include <cstdint>

namespace gleaner::simulation::pickle {
namespace {

constexpr std::uint32_t kLastCodePoint = 0x10FFFF;

bool is_surrogate(std::uint32_t code) { return code >= 0xD800 && code <= 0xDFFF; }

bool append_code_point(std::string& out, std::uint32_t code) {
  const auto tail = [&](unsigned shift) { out += static_cast<char>(0x80U | ((code >> shift) & 0x3FU)); };
  if (code > kLastCodePoint || is_surrogate(code)) return false;
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0U | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0U | (code >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0U | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
  return true;
}

// Exactly so many hexadecimal digits, taken off the front.
std::optional<std::uint32_t> take_hex(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return std::nullopt;
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, value, 16);
  if (error != std::errc() || end != text.data() + digits) return std::nullopt;
  text.remove_prefix(digits);
  return value;
}

// One sequence of UTF-8 off the front; false when it is none, or longer than it need be.
bool take_sequence(std::string_view& rest) {
  const auto first = static_cast<unsigned char>(rest.front());
  if (first < 0x80) {
    rest.remove_prefix(1);
    return true;
  }
  std::size_t size = 0;
  if ((first & 0xE0U) == 0xC0U) size = 2;
  if ((first & 0xF0U) == 0xE0U) size = 3;
  if ((first & 0xF8U) == 0xF0U) size = 4;
  if (size == 0 || rest.size() < size) return false;
  std::uint32_t code = first & (0xFFU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    const auto next = static_cast<unsigned char>(rest[i]);
    if ((next & 0xC0U) != 0x80U) return false;
    code = (code << 6) | (next & 0x3FU);
  }
  std::string again;
  if (!append_code_point(again, code) || again.size() != size) return false;
  rest.remove_prefix(size);
  return true;
}

// What stands after a backslash in a literal, taken off the front.
std::optional<char> take_escape(std::string_view& rest) {
  if (rest.empty()) return std::nullopt;
  const char kind = rest.front();
  rest.remove_prefix(1);
  switch (kind) {
    case '\\':
    case '\'':
    case '"': return kind;
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'x':
      if (const auto code = take_hex(rest, 2)) return static_cast<char>(*code);
      return std::nullopt;
    default: return std::nullopt;
  }
}

}  // namespace

std::optional<std::string> checked_utf8(std::string_view bytes) {
  for (std::string_view rest = bytes; !rest.empty();) {
    if (!take_sequence(rest)) return std::nullopt;
  }
  return std::string(bytes);
}

std::optional<std::string> from_python_literal(std::string_view text) {
  if (text.size() < 2 || (text.front() != '\'' && text.front() != '"') || text.back() != text.front()) {
    return std::nullopt;
  }
  std::string out;
  for (std::string_view rest = text.substr(1, text.size() - 2); !rest.empty();) {
    const char c = rest.front();
    rest.remove_prefix(1);
    if (c == text.front() || static_cast<unsigned char>(c) >= 0x80) return std::nullopt;
    if (c != '\\') {
      out += c;
      continue;
    }
    const auto escaped = take_escape(rest);
    if (!escaped) return std::nullopt;
    out += *escaped;
  }
  return checked_utf8(out);
}

std::optional<std::string> from_raw_unicode(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const bool is_short = text.starts_with("\\u");
    if (is_short || text.starts_with("\\U")) {
      text.remove_prefix(2);
      const auto code = take_hex(text, is_short ? 4 : 8);
      if (!code || !append_code_point(out, *code)) return std::nullopt;
      continue;
    }
    append_code_point(out, static_cast<unsigned char>(text.front()));
    text.remove_prefix(1);
  }
  return out;
}

}  // namespace gleaner::simulation::pickle
