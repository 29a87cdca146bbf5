#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "protocol/aligned_buffer.hpp"
#include "protocol/messages.hpp"
#include "tests/protocol/random_messages.hpp"

namespace gleaner {
namespace {

using ::testing::HasSubstr;

Bytes header_of(std::uint32_t body_bytes, std::uint8_t type) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put(body_bytes);
  writer.put(type);
  return bytes;
}

// What is not payload and not TLS, by hand: 5 bytes of header and one struct.
TEST(FrameSize, FixedCostOfARound) {
  const Bytes payload(1000);
  Plan plan{.id = {1}, .base = {2}, .sync = SyncKind::patches, .sync_from = {1}};
  plan.sync_bytes = payload.size();
  plan.sync_head = payload;
  const Update update{.plan = {1}, .total_bytes = 1000, .bytes = payload};
  const auto plan_cost = encode_frame(plan).size() - payload.size();
  const auto update_cost = encode_frame(update).size() - payload.size();
  EXPECT_EQ(plan_cost, 93U);
  EXPECT_EQ(update_cost, 53U);
  constexpr std::size_t kTlsRecordBytes = 22;
  EXPECT_LT(plan_cost + update_cost + 2 * kTlsRecordBytes, 230U);
}

TEST(FrameSize, SmallFrames) {
  EXPECT_EQ(encode_frame(Heartbeat{}).size(), 5U);
  EXPECT_EQ(encode_frame(Skip{.plan = {1}}).size(), 37U);
  EXPECT_EQ(encode_frame(Received{.plan = {1}}).size(), 21U);
  EXPECT_EQ(encode_frame(Settle{.plan = {1}}).size(), 29U);
  EXPECT_EQ(encode_frame(SyncChunk{.plan = {1}, .bytes = Bytes(7)}).size(), 28U);
}

TEST(FrameHeader, IsLittleEndianLengthThenType) {
  const Bytes frame = encode_frame(Received{.plan = {1}});
  EXPECT_EQ(Bytes(frame.begin(), frame.begin() + 5), header_of(16, 11));
  const auto header = decode_header(std::span(frame).first(FrameHeader::kBytes), Sender::coordinator);
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->body_bytes, 16U);
  EXPECT_EQ(frame_name(header->type), "Received");
}

TEST(FrameHeader, RefusesUnknownTypes) {
  for (const int type : {0, 18, 99, 255}) {
    const auto header = decode_header(header_of(16, static_cast<std::uint8_t>(type)), Sender::device);
    ASSERT_FALSE(header.has_value());
    EXPECT_EQ(header.error().code(), ErrorCode::peer_fault);
    EXPECT_EQ(frame_name(static_cast<std::uint8_t>(type)), "unknown");
  }
}

TEST(FrameHeader, RefusesTheWrongSender) {
  const auto header = decode_header(header_of(100, 7), Sender::device);
  ASSERT_FALSE(header.has_value());
  EXPECT_THAT(header.error().message(), HasSubstr("a device may not send a Plan"));
  EXPECT_FALSE(decode_header(header_of(100, 9), Sender::coordinator).has_value());
  EXPECT_TRUE(decode_header(header_of(0, 13), Sender::device).has_value());
  EXPECT_TRUE(decode_header(header_of(0, 13), Sender::coordinator).has_value());
}

TEST(FrameHeader, RefusesSizesBeyondTheLimitOfTheType) {
  EXPECT_TRUE(decode_header(header_of(48 + kChunkBytesMax, 9), Sender::device).has_value());
  EXPECT_FALSE(decode_header(header_of(48 + kChunkBytesMax + 1, 9), Sender::device).has_value());
  EXPECT_FALSE(decode_header(header_of(48, 9), Sender::device).has_value());
  EXPECT_FALSE(decode_header(header_of(0xffffffff, 1), Sender::device).has_value());
  EXPECT_FALSE(decode_header(header_of(8193, 1), Sender::device).has_value());
  EXPECT_FALSE(decode_header(header_of(1, 13), Sender::device).has_value());
  EXPECT_FALSE(decode_header(header_of(33, 10), Sender::device).has_value());
}

TEST(FrameHeader, RefusesAShortHeader) {
  EXPECT_FALSE(decode_header(Bytes(4), Sender::device).has_value());
  EXPECT_FALSE(decode_header(Bytes(), Sender::device).has_value());
}

TEST(AlignedBuffer, IsAlignedForEverySize) {
  for (std::size_t size = 0; size < 40; ++size) {
    AlignedBuffer buffer(size);
    EXPECT_EQ(buffer.size(), size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.view().data()) % 8, 0U);
    if (size > 0) std::memset(buffer.bytes().data(), 0x5a, size);
  }
}

}  // namespace
}  // namespace gleaner
