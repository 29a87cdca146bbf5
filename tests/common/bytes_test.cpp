#include "common/bytes.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "common/hash.hpp"

namespace gleaner {
namespace {

RC_GTEST_PROP(Bytes, VarintRoundTrip, (std::uint64_t value)) {
  Bytes out;
  ByteWriter(out).put_varint(value);
  ByteReader in(out);
  RC_ASSERT(in.get_varint() == value);
  RC_ASSERT(in.ok() && in.at_end());
}

TEST(Bytes, ReadingPastTheEndIsRememberedAndGivesZeros) {
  Bytes out;
  ByteWriter(out).put<std::uint16_t>(0xffff);
  ByteReader in(out);
  EXPECT_EQ(in.get<std::uint32_t>(), 0U);
  EXPECT_FALSE(in.ok());
  EXPECT_EQ(in.get<std::uint8_t>(), 0U);
}

TEST(Bytes, OverlongAndUnendingVarintsAreRefused) {
  const Bytes overlong = {std::byte{0x80}, std::byte{0x00}};
  ByteReader a(overlong);
  (void)a.get_varint();
  EXPECT_FALSE(a.ok());
  const Bytes unending(12, std::byte{0xff});
  ByteReader b(unending);
  (void)b.get_varint();
  EXPECT_FALSE(b.ok());
}

// Golden: these are stored and sent, and must never change.
TEST(Hash, Golden) {
  EXPECT_EQ(mix64(0), 0xe220a8397b1dcdafULL);
  EXPECT_EQ(digest_of({}).value, 0x2d06800538d394c2ULL);
  EXPECT_NE(coordinate_hash(0, 0.0F), coordinate_hash(0, -0.0F));
}

}  // namespace
}  // namespace gleaner
