#include "coordinator/admin/target.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "common/text.hpp"

namespace gleaner::admin {
namespace {

constexpr std::size_t kMaxTargetBytes = 4096;
constexpr std::size_t kMaxSegments = 8;
constexpr std::size_t kMaxQueryKeys = 8;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<std::string> decode_component(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return fail(ErrorCode::bad_input, "the request's target has a broken percent-encoding");
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      return fail(ErrorCode::bad_input, "the request's target has a control character");
    }
    out.push_back(c);
  }
  return out;
}

Status parse_segments(std::string_view path, Target& target) {
  if (path == "/") return {};
  while (!path.empty()) {
    path.remove_prefix(1);  // the slash
    const std::string_view segment = path.substr(0, path.find('/'));
    path.remove_prefix(segment.size());
    GLEANER_ASSIGN(std::string decoded, decode_component(segment));
    if (decoded.empty() || decoded == "." || decoded == "..") {
      return fail(ErrorCode::bad_input, "the request's path has an empty or dot segment");
    }
    if (target.segments.size() == kMaxSegments) return fail(ErrorCode::bad_input, "the request's path is too deep");
    target.segments.push_back(std::move(decoded));
  }
  return {};
}

Status parse_query(std::string_view query, Target& target) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    const std::size_t equals = std::min(pair.find('='), pair.size());
    GLEANER_ASSIGN(std::string key, decode_component(pair.substr(0, equals)));
    GLEANER_ASSIGN(std::string value, decode_component(pair.substr(std::min(equals + 1, pair.size()))));
    if (key.empty()) return fail(ErrorCode::bad_input, "the request's query has a value without a key");
    if (target.query.size() == kMaxQueryKeys) return fail(ErrorCode::bad_input, "the request's query is too long");
    if (!target.query.emplace(key, std::move(value)).second) {
      return fail(ErrorCode::bad_input, fmt::format("the request's query has '{}' twice", key));
    }
  }
  return {};
}

}  // namespace

Result<Target> parse_target(std::string_view text) {
  if (text.empty() || text.front() != '/') {
    return fail(ErrorCode::bad_input, "the request's target is no absolute path");
  }
  if (text.size() > kMaxTargetBytes) return fail(ErrorCode::bad_input, "the request's target is too long");
  Target target;
  const std::size_t mark = std::min(text.find('?'), text.size());
  GLEANER_TRY(parse_segments(text.substr(0, mark), target));
  GLEANER_TRY(parse_query(text.substr(std::min(mark + 1, text.size())), target));
  return target;
}

Result<std::uint32_t> count_in(const Target& target, const std::string& key, std::uint32_t fallback,
                               std::uint32_t max) {
  const auto found = target.query.find(key);
  if (found == target.query.end()) return fallback;
  const std::string& text = found->second;
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1 || value > max) {
    return fail(ErrorCode::bad_input, fmt::format("{}={}: expected a number from 1 to {}", key, text, max));
  }
  return value;
}

Status check_query(const Target& target, const std::vector<std::string>& known) {
  for (const auto& [key, value] : target.query) {
    if (std::ranges::find(known, key) != known.end()) continue;
    return fail(ErrorCode::bad_input, known.empty()
                                          ? fmt::format("the query has '{}', expected none", key)
                                          : fmt::format("the query has '{}', expected {}", key, join_names(known)));
  }
  return {};
}

std::string encode_component(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~';
    if (plain) {
      out.push_back(c);
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

}  // namespace gleaner::admin
