#pragma once
// Shared by the encoder and the decoder only: frame types, their limits, and what text may be.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/error.hpp"
#include "protocol/messages.hpp"

namespace gleaner::wire {

inline constexpr std::size_t kNameBytesMax = 64;    // is_valid_name
inline constexpr std::size_t kTitleBytesMax = 128;  // for people: software, names of runs
inline constexpr std::size_t kTextBytesMax = 512;   // sentences for people
inline constexpr std::size_t kCapabilitiesMax = 64;

// Sizes of the naked structs of the schema; messages_encode.cpp proves them.
inline constexpr std::uint32_t kSettleBytes = 24;
inline constexpr std::uint32_t kPlanHeadBytes = 88;
inline constexpr std::uint32_t kSyncChunkHeadBytes = 16;
inline constexpr std::uint32_t kSkipBytes = 32;
inline constexpr std::uint32_t kReceivedBytes = 16;

struct FrameRule {
  std::string_view name;
  bool from_device;
  bool from_coordinator;
  std::uint32_t body_bytes_min;
  std::uint32_t body_bytes_max;
};

// Row i is frame type i + 1 and alternative i of Message: never reorder, only append.
inline constexpr std::array<FrameRule, 17> kFrameRules{{
    {"Hello", true, false, 8, 8192},
    {"Welcome", false, true, 8, 8192},
    {"Offer", false, true, 8, 4096},
    {"Accept", true, false, 8, 256},
    {"Decline", true, false, 8, 1024},
    {"Settle", false, true, kSettleBytes, kSettleBytes},
    {"Plan", false, true, kPlanHeadBytes, kPlanHeadBytes + kChunkBytesMax},
    {"SyncChunk", false, true, kSyncChunkHeadBytes + 1, kSyncChunkHeadBytes + kChunkBytesMax},
    {"Update", true, false, kUpdateHeadBytes + 1, kUpdateHeadBytes + kChunkBytesMax},
    {"Skip", true, false, kSkipBytes, kSkipBytes},
    {"Received", false, true, kReceivedBytes, kReceivedBytes},
    {"Refused", false, true, 8, 1024},
    {"Heartbeat", true, true, 0, 0},
    {"Drain", false, true, 8, 64},
    {"Superseded", false, true, 8, 64},
    {"RunEnded", false, true, 8, 64},
    {"Failure", false, true, 8, 1024},
}};
static_assert(kFrameRules.size() == std::variant_size_v<Message>);

// Valid UTF-8 without control characters, line breaks or marks that turn the direction of writing: it may stand in a
// log line. text must be followed by a zero byte, as std::string and FlatBuffers strings are.
bool is_printable(const char* text, std::size_t size_bytes);

// The text cut to at most bytes_max at a character, with '?' for what is_printable refuses.
std::string printable(std::string_view text, std::size_t bytes_max);

}  // namespace gleaner::wire
