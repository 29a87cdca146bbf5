#include "protocol/wire.hpp"

#include <flatbuffers/util.h>
#include <fmt/format.h>

#include <string>

namespace gleaner::wire {
namespace {

bool is_printable_code_point(int c) {
  if (c < 0x20 || (c >= 0x7f && c < 0xa0)) return false;        // control characters; -1: not UTF-8
  if (c == 0x2028 || c == 0x2029 || c == 0xfeff) return false;  // line and paragraph separator, byte order mark
  if (c >= 0x202a && c <= 0x202e) return false;                 // directions
  return !(c >= 0x2066 && c <= 0x2069) && c != 0x200e && c != 0x200f;
}

}  // namespace

bool is_printable(const char* text, std::size_t size_bytes) {
  // The zero behind the text is never a continuation byte, so that FromUTF8 stops at it.
  for (const char* at = text; at < text + size_bytes;) {
    if (!is_printable_code_point(flatbuffers::FromUTF8(&at))) return false;
  }
  return true;
}

std::string printable(std::string_view text, std::size_t bytes_max) {
  const std::string whole(text);
  const char* const end = whole.data() + whole.size();
  std::string out;
  for (const char* at = whole.data(); at < end;) {
    const char* next = at;
    const bool ok = is_printable_code_point(flatbuffers::FromUTF8(&next));
    const std::string piece = ok ? std::string(at, next) : "?";
    if (out.size() + piece.size() > bytes_max) break;
    out += piece;
    at = ok ? next : at + 1;
  }
  return out;
}

}  // namespace gleaner::wire

namespace gleaner {

std::string_view frame_name(std::uint8_t type) {
  if (type == 0 || type > wire::kFrameRules.size()) return "unknown";
  return wire::kFrameRules[type - 1U].name;
}

Result<FrameHeader> decode_header(std::span<const std::byte> header, Sender sender) {
  ByteReader reader(header);
  FrameHeader frame;
  frame.body_bytes = reader.get<std::uint32_t>();
  frame.type = reader.get<std::uint8_t>();
  if (!reader.ok()) return fail(ErrorCode::peer_fault, "the frame ends within its header");
  if (frame.type == 0 || frame.type > wire::kFrameRules.size()) {
    return fail(ErrorCode::peer_fault, fmt::format("frame type {} is unknown to protocol {}; is the far side newer?",
                                                   frame.type, kProtocolVersion));
  }
  const wire::FrameRule& rule = wire::kFrameRules[frame.type - 1U];
  if (!(sender == Sender::device ? rule.from_device : rule.from_coordinator)) {
    return fail(ErrorCode::peer_fault, fmt::format("a {} may not send a {} frame",
                                                   sender == Sender::device ? "device" : "coordinator", rule.name));
  }
  if (frame.body_bytes < rule.body_bytes_min || frame.body_bytes > rule.body_bytes_max) {
    return fail(ErrorCode::peer_fault, fmt::format("a {} frame of {} bytes; {} to {} are allowed", rule.name,
                                                   frame.body_bytes, rule.body_bytes_min, rule.body_bytes_max));
  }
  return frame;
}

}  // namespace gleaner
