#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "protocol/aligned_buffer.hpp"
#include "protocol/messages.hpp"
#include "tests/protocol/random_messages.hpp"

namespace gleaner {
namespace {

using gleaner::testing::random_message;
using gleaner::testing::same;
using gleaner::testing::sender_of;
using ::testing::HasSubstr;

constexpr std::size_t kTypes = std::variant_size_v<Message>;

// The message in the frame, with the buffer that it points into.
struct Decoded {
  AlignedBuffer buffer;
  Result<Message> message;
};

Decoded decode(ByteView frame, Sender sender) {
  const auto header = decode_header(frame.first(std::min<std::size_t>(frame.size(), FrameHeader::kBytes)), sender);
  if (!header) return {AlignedBuffer(), fail(header.error())};
  AlignedBuffer buffer = AlignedBuffer::copy_of(frame.subspan(FrameHeader::kBytes));
  Result<Message> message = decode_body(*header, buffer.view());
  return {std::move(buffer), std::move(message)};
}

template <class M>
std::string error_of(const M& message) {
  const Decoded decoded = decode(encode_frame(message), sender_of(Message(message).index()));
  if (decoded.message.has_value()) return "no error";
  EXPECT_EQ(decoded.message.error().code(), ErrorCode::peer_fault);
  return decoded.message.error().message();
}

RC_GTEST_PROP(Messages, RoundTrip, (std::uint64_t seed)) {
  for (std::size_t index = 0; index < kTypes; ++index) {
    Random random(seed, Purpose::test, index);
    Bytes bytes;
    const Message message = random_message(index, random, bytes);
    RC_ASSERT(message.index() == index);
    const Bytes frame = encode_frame(message);
    const Decoded decoded = decode(frame, sender_of(index));
    if (!decoded.message) RC_FAIL(decoded.message.error().message());
    RC_ASSERT(same(*decoded.message, message));
    RC_ASSERT(encode_frame(*decoded.message) == frame);
  }
}

// A shorter body that says so in its header is an error or another valid message, never a crash.
RC_GTEST_PROP(Messages, EveryTruncation, (std::uint64_t seed)) {
  for (std::size_t index = 0; index < kTypes; ++index) {
    Random random(seed, Purpose::test, index);
    Bytes bytes;
    const Bytes frame = encode_frame(random_message(index, random, bytes));
    const std::size_t step = 1 + frame.size() / 500;
    for (std::size_t size = 0; size < frame.size(); size += step) {
      Bytes cut(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size));
      RC_ASSERT(!decode(cut, sender_of(index)).message.has_value());  // the header tells another length
      if (size < FrameHeader::kBytes) continue;
      const auto body_bytes = static_cast<std::uint32_t>(size - FrameHeader::kBytes);
      std::memcpy(cut.data(), &body_bytes, sizeof(body_bytes));
      const Decoded decoded = decode(cut, sender_of(index));
      if (decoded.message) encode_frame(*decoded.message);  // what was accepted keeps every limit
    }
  }
}

RC_GTEST_PROP(Messages, EveryCorruption, (std::uint64_t seed)) {
  for (std::size_t index = 0; index < kTypes; ++index) {
    Random random(seed, Purpose::test, index);
    Bytes bytes;
    Bytes frame = encode_frame(random_message(index, random, bytes));
    for (int i = 0; i < 50 && frame.size() > FrameHeader::kBytes; ++i) {
      const auto size = static_cast<std::uint32_t>(std::min<std::size_t>(frame.size() - FrameHeader::kBytes, 300));
      auto& byte = frame[FrameHeader::kBytes + random.below(size)];
      const std::byte before = byte;
      byte ^= static_cast<std::byte>(1U << random.below(8));
      const Decoded decoded = decode(frame, sender_of(index));
      if (decoded.message) encode_frame(*decoded.message);
      if (random.below(4) != 0) byte = before;  // now and then the damage adds up
    }
  }
}

RC_GTEST_PROP(Messages, RandomBodies, (std::uint64_t seed)) {
  Random random(seed, Purpose::test);
  for (std::uint8_t type = 1; type <= kTypes; ++type) {
    AlignedBuffer body(random.below(300));
    for (std::byte& byte : body.bytes()) byte = static_cast<std::byte>(random.bits32() >> random.below(8));
    const FrameHeader header{.body_bytes = static_cast<std::uint32_t>(body.size()), .type = type};
    const auto message = decode_body(header, body.view());
    if (message) encode_frame(*message);
  }
}

// The head alone says what the whole says of it, and finds the same faults.
TEST(Messages, UpdateByItsHead) {
  const Bytes bytes(10);
  const auto head_of = [](const Update& update) {
    const Bytes frame = encode_frame(update);
    const auto header = decode_header(ByteView(frame).first(FrameHeader::kBytes), Sender::device);
    EXPECT_TRUE(is_update(*header));
    return decode_update_head(*header, ByteView(frame).subspan(FrameHeader::kBytes).first<kUpdateHeadBytes>());
  };
  Update m{.plan = {1}, .digest = {2}, .samples = 3, .total_bytes = 12, .offset = 2, .compute_ms = 4, .bytes = bytes};
  const auto head = head_of(m);
  ASSERT_TRUE(head.has_value()) << head.error().message();
  EXPECT_EQ(head->digest.value, 2U);
  EXPECT_EQ(head->samples, 3U);
  EXPECT_EQ(head->total_bytes, 12U);
  EXPECT_EQ(head->offset, 2U);
  EXPECT_EQ(head->compute_ms, 4U);
  EXPECT_TRUE(head->bytes.empty());
  Bytes frame = encode_frame(m);
  frame[FrameHeader::kBytes + 20] = std::byte{11};  // total_bytes
  const auto header = decode_header(ByteView(frame).first(FrameHeader::kBytes), Sender::device);
  const auto bad = decode_update_head(*header, ByteView(frame).subspan(FrameHeader::kBytes).first<kUpdateHeadBytes>());
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().code(), ErrorCode::peer_fault);
  EXPECT_THAT(bad.error().message(), HasSubstr("Update.offset"));
  const Bytes heartbeat = encode_frame(Heartbeat{});
  EXPECT_FALSE(is_update(*decode_header(ByteView(heartbeat).first(FrameHeader::kBytes), Sender::device)));
}

TEST(Messages, UpdateNamesTheField) {
  const Bytes bytes(10);
  const Update good{.plan = {1}, .total_bytes = 10, .bytes = bytes};
  EXPECT_EQ(error_of(good), "no error");
  Update m = good;
  m.plan = {0};
  EXPECT_THAT(error_of(m), HasSubstr("Update.plan"));
  m = good;
  m.offset = 1;
  EXPECT_THAT(error_of(m), HasSubstr("Update.offset"));
  m.offset = 0xffffffff;
  m.total_bytes = 9;
  EXPECT_THAT(error_of(m), HasSubstr("Update.offset"));
}

// The three floats of an answer, at their places in the frame; not by encode_frame, which makes them finite.
TEST(Messages, NonFiniteFiguresOfAnAnswerAreRefused) {
  const Bytes bytes(10);
  const Bytes update = encode_frame(Update{.plan = {1}, .total_bytes = 10, .bytes = bytes});
  const Bytes skip = encode_frame(Skip{.plan = {1}});
  const std::string names[] = {"left", "right", "loss"};
  const auto expect_refused = [](Bytes frame, std::size_t at, const std::string& field) {
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      std::memcpy(frame.data() + at, &bad, sizeof(bad));
      const Decoded decoded = decode(frame, Sender::device);
      ASSERT_FALSE(decoded.message.has_value());
      EXPECT_THAT(decoded.message.error().message(), HasSubstr(field));
    }
  };
  for (std::size_t i = 0; i < 3; ++i) {
    expect_refused(update, FrameHeader::kBytes + 32 + 4 * i, "Update." + names[i]);
    expect_refused(skip, FrameHeader::kBytes + 16 + 4 * i, "Skip." + names[i]);
  }
}

TEST(Messages, ADivergedDeviceReportsFiniteFigures) {
  const float huge = std::numeric_limits<float>::max();
  const Bytes frame = encode_frame(Skip{.plan = {1},
                                        .left = std::nanf(""),
                                        .right = -std::numeric_limits<float>::infinity(),
                                        .loss = std::numeric_limits<float>::infinity()});
  const Decoded decoded = decode(frame, Sender::device);
  ASSERT_TRUE(decoded.message.has_value());
  const Skip& skip = std::get<Skip>(*decoded.message);
  EXPECT_EQ(skip.left, huge);
  EXPECT_EQ(skip.right, -huge);
  EXPECT_EQ(skip.loss, huge);
}

TEST(Messages, PlanNamesTheField) {
  const Bytes bytes(10);
  Plan good{.id = {1}, .base = {5}, .sync = SyncKind::patches, .sync_from = {4}, .sync_bytes = 10, .sync_head = bytes};
  EXPECT_EQ(error_of(good), "no error");
  Plan m = good;
  m.id = {0};
  EXPECT_THAT(error_of(m), HasSubstr("Plan.id"));
  m = good;
  m.sync_bytes = 9;
  EXPECT_THAT(error_of(m), HasSubstr("Plan.sync_head"));
  m = good;
  m.sync_from = {5};
  EXPECT_THAT(error_of(m), HasSubstr("Plan.sync_from"));
  m = good;
  m.sync = SyncKind::none;
  EXPECT_THAT(error_of(m), HasSubstr("Plan.sync_bytes"));
  m = good;
  m.sync = static_cast<SyncKind>(5);
  EXPECT_THAT(error_of(m), HasSubstr("Plan.sync"));
  m = good;
  m.settled_outcome = Outcome::included;
  EXPECT_THAT(error_of(m), HasSubstr("Plan.settled_outcome"));
  m.settled_plan = {3};
  m.settled_outcome = static_cast<Outcome>(8);
  EXPECT_THAT(error_of(m), HasSubstr("Plan.settled_outcome"));
  m = good;
  m.threshold = std::nanf("");
  EXPECT_THAT(error_of(m), HasSubstr("Plan.threshold"));
  m = good;
  m.patch_clip = -1.0F;
  EXPECT_THAT(error_of(m), HasSubstr("Plan.patch_clip"));
  EXPECT_THAT(error_of(Plan{.id = {1}, .base = {1}, .sync = SyncKind::seeded}), HasSubstr("Plan.base"));
}

TEST(Messages, OthersNameTheField) {
  EXPECT_THAT(error_of(Hello{.version_min = 0}), HasSubstr("Hello.version_min"));
  EXPECT_THAT(error_of(Hello{.version_min = 3, .version_max = 2}), HasSubstr("Hello.version_min"));
  EXPECT_THAT(error_of(Hello{.cores = 0}), HasSubstr("Hello.cores"));
  EXPECT_THAT(error_of(Welcome{.heartbeat_ms = 0}), HasSubstr("Welcome.heartbeat_ms"));
  EXPECT_THAT(error_of(Welcome{.heartbeat_ms = 3'600'001}), HasSubstr("Welcome.heartbeat_ms"));
  EXPECT_THAT(error_of(Accept{.has_model = false, .model_hash = 1}), HasSubstr("Accept.has_model"));
  EXPECT_THAT(error_of(Accept{.pending_digest = {1}}), HasSubstr("Accept.pending_digest"));
  EXPECT_THAT(error_of(Settle{.plan = {0}}), HasSubstr("Settle.plan"));
  EXPECT_THAT(error_of(Settle{.plan = {1}, .outcome = Outcome::included, .resend = true}), HasSubstr("Settle.resend"));
  EXPECT_THAT(error_of(Refused{.code = RefusalCode::none}), HasSubstr("Refused.code"));
  EXPECT_THAT(error_of(Refused{.code = static_cast<RefusalCode>(14)}), HasSubstr("Refused.code"));
  EXPECT_THAT(error_of(Failure{.code = static_cast<FailureCode>(7)}), HasSubstr("Failure.code"));
  EXPECT_THAT(error_of(Skip{}), HasSubstr("Skip.plan"));
  EXPECT_THAT(error_of(Received{}), HasSubstr("Received.plan"));
}

// The byte behind the last capability's first character becomes a line break.
TEST(Messages, TextThatCouldForgeALogLineIsRefused) {
  Bytes frame = encode_frame(Decline{.run = {1}, .reason = "abcdefgh"});
  const std::string_view text = as_text(frame);
  const auto at = text.find("abcdefgh");
  ASSERT_NE(at, std::string_view::npos);
  for (const char bad : {'\n', '\0', '\x1b', '\x7f', '\xff', '\xc3'}) {
    frame[at + 3] = static_cast<std::byte>(bad);
    const Decoded decoded = decode(frame, Sender::device);
    ASSERT_FALSE(decoded.message.has_value()) << static_cast<int>(bad);
    EXPECT_THAT(decoded.message.error().message(), HasSubstr("Decline.reason"));
  }
}

TEST(Messages, SentencesAreCutAndMadePrintable) {
  const std::string evil = "line\nbreak \xff " + std::string(600, 'x');
  const Decoded decoded = decode(encode_frame(Decline{.run = {1}, .reason = evil}), Sender::device);
  ASSERT_TRUE(decoded.message.has_value());
  const std::string& reason = std::get<Decline>(*decoded.message).reason;
  EXPECT_EQ(reason.size(), 512U);
  EXPECT_TRUE(reason.starts_with("line?break ? xxx"));
  // Three-byte characters are never cut in two.
  std::string euros;
  for (int i = 0; i < 300; ++i) euros += "\xe2\x82\xac";
  const Decoded other = decode(encode_frame(Failure{.text = euros}), Sender::coordinator);
  ASSERT_TRUE(other.message.has_value());
  EXPECT_EQ(std::get<Failure>(*other.message).text.size(), 510U);
}

TEST(Messages, EveryRunSpecLimitIsNamed) {
  Random random(1, Purpose::test);
  Bytes bytes;
  const RunSpec good = std::get<Offer>(random_message(2, random, bytes)).spec;
  ASSERT_TRUE(check_run_spec(good).has_value());
  const auto error = [&good](auto change) {
    RunSpec spec = good;
    change(spec);
    const Status status = check_run_spec(spec);
    return status ? std::string("no error") : status.error().message();
  };
  EXPECT_THAT(error([](RunSpec& s) { s.name = ""; }), HasSubstr("name"));
  EXPECT_THAT(error([](RunSpec& s) { s.name = "a\nb"; }), HasSubstr("name"));
  EXPECT_THAT(error([](RunSpec& s) { s.data = "../etc"; }), HasSubstr("data"));
  EXPECT_THAT(error([](RunSpec& s) { s.model = ""; }), HasSubstr("model"));
  EXPECT_THAT(error([](RunSpec& s) { s.dimension = 0; }), HasSubstr("dimension"));
  EXPECT_EQ(error([](RunSpec& s) { s.classes = 2; }), "no error");
  EXPECT_EQ(error([](RunSpec& s) { s.classes = 256; }), "no error");
  for (const std::uint32_t classes : {0U, 1U, 257U, 1U << 31}) {
    EXPECT_THAT(error([classes](RunSpec& s) { s.classes = classes; }), HasSubstr("classes"));
  }
  EXPECT_THAT(error([](RunSpec& s) { s.batch_size = 0; }), HasSubstr("batch_size"));
  EXPECT_THAT(error([](RunSpec& s) { s.learning_rate = std::nanf(""); }), HasSubstr("learning_rate"));
  EXPECT_THAT(error([](RunSpec& s) { s.momentum = 1.0F; }), HasSubstr("momentum"));
  EXPECT_THAT(error([](RunSpec& s) { s.skip_share = std::nan(""); }), HasSubstr("skip_share"));
  EXPECT_THAT(error([](RunSpec& s) { s.zeta = -1; }), HasSubstr("zeta"));
  EXPECT_THAT(error([](RunSpec& s) { s.clip_exponent = 61; }), HasSubstr("clip_exponent"));
}

}  // namespace
}  // namespace gleaner
