// Each fault of a payload and the code that names it. Payloads are written by hand, as a hostile peer would.

#include <gtest/gtest.h>

#include "compression/payload.hpp"

namespace gleaner {
namespace {

constexpr std::uint8_t kListF32 = 0x00;
constexpr std::uint8_t kDenseF32 = 0x01;
constexpr std::uint8_t kBitmapF32 = 0x02;
constexpr std::uint8_t kRiceF32 = 0x03;
constexpr std::uint8_t kEliasFanoF32 = 0x04;
constexpr std::uint8_t kBlocksF32 = 0x05;

// Builds a payload piece by piece.
struct Builder {
  Bytes bytes;
  Builder& count(std::uint64_t n) {
    ByteWriter(bytes).put_varint(n);
    return *this;
  }
  Builder& u8(unsigned value) {
    bytes.push_back(static_cast<std::byte>(value));
    return *this;
  }
  Builder& index(std::uint32_t value) {
    ByteWriter(bytes).put(value);
    return *this;
  }
  Builder& values(std::size_t n) {
    for (std::size_t j = 0; j < n; ++j) ByteWriter(bytes).put(1.0F);
    return *this;
  }
};

RefusalCode code_of(const Builder& payload, const Grouping& grouping, std::uint32_t entries_max = 100) {
  const auto decoded = decode_payload(payload.bytes, grouping, {.entries_max = entries_max, .clip = 2.0F});
  return decoded ? RefusalCode::none : decoded.error().code();
}

TEST(PayloadRefusal, HandMadePayloadsDecode) {
  const Grouping grouping{{10, 6}};
  const auto list = Builder().count(2).u8(kListF32).index(1).index(9).values(2).count(0);
  EXPECT_EQ(code_of(list, grouping), RefusalCode::none);
  const auto dense = Builder().count(0).count(6).u8(kDenseF32).values(6);
  EXPECT_EQ(code_of(dense, grouping), RefusalCode::none);
  const auto bitmap = Builder().count(2).u8(kBitmapF32).u8(0x01).u8(0x02).values(2).count(0);
  EXPECT_EQ(code_of(bitmap, grouping), RefusalCode::none);
  // Parameter 1: the gaps 1 and 3 have the low bits "1" and "1" and the upper parts "1" and "01"; the first bit is the
  // lowest.
  const auto rice = Builder().count(2).u8(kRiceF32).u8(1).u8(0b10111).values(2).count(0);
  const auto decoded = decode_payload(rice.bytes, grouping, {.entries_max = 2, .clip = 2.0F});
  ASSERT_TRUE(decoded) << decoded.error().detail();
  EXPECT_EQ(decoded->indices, (std::vector<std::uint32_t>{1, 5}));
}

TEST(PayloadRefusal, Framing) {
  const Grouping grouping{{10}};
  EXPECT_EQ(code_of(Builder(), grouping), RefusalCode::malformed);
  EXPECT_EQ(code_of(Builder().count(0).u8(0), grouping), RefusalCode::malformed) << "trailing byte";
  EXPECT_EQ(code_of(Builder().u8(0x80).u8(0x00), grouping), RefusalCode::malformed) << "zero in two bytes";
  EXPECT_EQ(code_of(Builder().u8(0x80), grouping), RefusalCode::malformed);
  EXPECT_EQ(code_of(Builder().count(1), grouping), RefusalCode::malformed);
  EXPECT_EQ(code_of(Builder().count(1).u8(0x06).index(1).values(1), grouping), RefusalCode::malformed);
  EXPECT_EQ(code_of(Builder().count(1).u8(0x70).index(1).values(1), grouping), RefusalCode::malformed);
  EXPECT_EQ(code_of(Builder().count(1).u8(kListF32).index(1), grouping), RefusalCode::malformed);
}

TEST(PayloadRefusal, Counts) {
  const Grouping grouping{{10, 6}};
  EXPECT_EQ(code_of(Builder().count(11).u8(kListF32), grouping), RefusalCode::too_many_entries);
  EXPECT_EQ(code_of(Builder().count(~std::uint64_t{0}), grouping), RefusalCode::too_many_entries);
  const auto three =
      Builder().count(2).u8(kListF32).index(1).index(9).values(2).count(1).u8(kListF32).index(0).values(1);
  EXPECT_EQ(code_of(three, grouping, 3), RefusalCode::none);
  EXPECT_EQ(code_of(three, grouping, 2), RefusalCode::too_many_entries);
  EXPECT_EQ(code_of(three, grouping, 0), RefusalCode::too_many_entries);
  // A count that the bytes cannot hold costs no memory, even when it was granted.
  const Grouping large{{4'000'000'000U}};
  EXPECT_EQ(code_of(Builder().count(3'999'999'999U).u8(kListF32), large, 0xffffffffU), RefusalCode::malformed);
  EXPECT_EQ(code_of(Builder().count(3'999'999'999U), large, 1'000), RefusalCode::too_many_entries);
}

TEST(PayloadRefusal, Lists) {
  const Grouping grouping{{10}};
  const auto list = [](std::uint32_t a, std::uint32_t b) {
    return Builder().count(2).u8(kListF32).index(a).index(b).values(2);
  };
  EXPECT_EQ(code_of(list(1, 10), grouping), RefusalCode::index_out_of_range);
  EXPECT_EQ(code_of(list(0xffffffffU, 3), grouping), RefusalCode::index_out_of_range);
  EXPECT_EQ(code_of(list(5, 4), grouping), RefusalCode::unsorted_index);
  EXPECT_EQ(code_of(list(5, 5), grouping), RefusalCode::repeated_index);
}

TEST(PayloadRefusal, DenseAndBitmaps) {
  const Grouping grouping{{10}};
  EXPECT_EQ(code_of(Builder().count(9).u8(kDenseF32).values(9), grouping), RefusalCode::malformed);
  const auto bitmap = [](unsigned low, unsigned high) {
    return Builder().count(2).u8(kBitmapF32).u8(low).u8(high).values(2);
  };
  EXPECT_EQ(code_of(bitmap(0x03, 0x00), grouping), RefusalCode::none);
  EXPECT_EQ(code_of(bitmap(0x07, 0x00), grouping), RefusalCode::malformed) << "three bits";
  EXPECT_EQ(code_of(bitmap(0x01, 0x00), grouping), RefusalCode::malformed) << "one bit";
  EXPECT_EQ(code_of(bitmap(0x01, 0x04), grouping), RefusalCode::malformed) << "padding";
}

TEST(PayloadRefusal, GolombRice) {
  const Grouping grouping{{10}};
  const auto rice = [](unsigned parameter, unsigned bits) {
    return Builder().count(1).u8(kRiceF32).u8(parameter).u8(bits).values(1);
  };
  EXPECT_EQ(code_of(rice(0, 0b1), grouping), RefusalCode::none);
  EXPECT_EQ(code_of(rice(0, 0b11), grouping), RefusalCode::malformed) << "padding";
  EXPECT_EQ(code_of(rice(4, 0b11111), grouping), RefusalCode::index_out_of_range) << "index 15";
  EXPECT_EQ(code_of(rice(4, 0b11001), grouping), RefusalCode::none) << "index 9";
  EXPECT_EQ(code_of(rice(32, 0b1), grouping), RefusalCode::malformed);
  const Grouping large{{0xffffffffU}};
  const auto wide = Builder().count(1).u8(kRiceF32).u8(31).index(0xffffffffU).values(1);
  EXPECT_EQ(code_of(wide, large), RefusalCode::none) << "index 2^31 - 1";
  // A run of zeros that would overflow 64 bits behind the parameter's shift.
  Builder endless = Builder().count(1).u8(kRiceF32).u8(31);
  for (int i = 0; i < 1'000; ++i) endless.u8(0);
  endless.u8(0xff).values(2);
  EXPECT_EQ(code_of(endless, large), RefusalCode::index_out_of_range);
  EXPECT_EQ(code_of(endless, grouping), RefusalCode::index_out_of_range);
  Builder unfinished = Builder().count(1).u8(kRiceF32).u8(0);
  for (int i = 0; i < 6; ++i) unfinished.u8(0);
  EXPECT_EQ(code_of(unfinished, large), RefusalCode::malformed);
}

TEST(PayloadRefusal, EliasFano) {
  const Grouping grouping{{10}};
  // Two low bits each, then the growth of the upper parts in unary.
  const auto two = [](unsigned bits) { return Builder().count(2).u8(kEliasFanoF32).u8(2).u8(bits).values(2); };
  EXPECT_EQ(code_of(two(0b101'1001), grouping), RefusalCode::none) << "1 and 6";
  EXPECT_EQ(code_of(two(0b100'0110), grouping), RefusalCode::index_out_of_range) << "two zeros and no second one";
  EXPECT_EQ(code_of(two(0b011'0110), grouping), RefusalCode::unsorted_index) << "2 and 1";
  EXPECT_EQ(code_of(two(0b011'1010), grouping), RefusalCode::repeated_index) << "2 and 2";
  EXPECT_EQ(code_of(two(0b1011'1001), grouping), RefusalCode::malformed) << "padding";
  EXPECT_EQ(code_of(two(0b1001'1001), grouping), RefusalCode::index_out_of_range) << "1 and 10";
  EXPECT_EQ(code_of(two(0b1001'0101), grouping), RefusalCode::none) << "1 and 9";
  EXPECT_EQ(code_of(Builder().count(1).u8(kEliasFanoF32).u8(32).u8(1).values(1), grouping), RefusalCode::malformed);
  Builder endless = Builder().count(1).u8(kEliasFanoF32).u8(0);
  for (int i = 0; i < 1'000; ++i) endless.u8(0);
  endless.u8(0xff).values(2);
  EXPECT_EQ(code_of(endless, grouping), RefusalCode::index_out_of_range);
}

TEST(PayloadRefusal, Blocks) {
  const Grouping grouping{{20}};
  // Blocks of 8: the bitmaps, then the blocks' numbers as Golomb-Rice gaps with parameter 0.
  const auto two = [](unsigned first, unsigned second, unsigned numbers) {
    return Builder().count(3).u8(kBlocksF32).u8(3).count(2).u8(first).u8(second).u8(0).u8(numbers).values(3);
  };
  const auto decoded =
      decode_payload(two(0b11, 0b1000, 0b101).bytes, grouping, {.entries_max = 3, .clip = 2.0F});  // blocks 0 and 2
  ASSERT_TRUE(decoded) << decoded.error().detail();
  EXPECT_EQ(decoded->indices, (std::vector<std::uint32_t>{0, 1, 19}));
  EXPECT_EQ(code_of(two(0b11, 0b10000, 0b101), grouping), RefusalCode::malformed) << "index 20";
  EXPECT_EQ(code_of(two(0b11, 0b11000, 0b101), grouping), RefusalCode::malformed) << "and index 20";
  EXPECT_EQ(code_of(two(0b111, 0, 0b101), grouping), RefusalCode::malformed) << "an empty block at the end";
  EXPECT_EQ(code_of(two(0, 0b111, 0b11), grouping), RefusalCode::malformed) << "an empty block";
  EXPECT_EQ(code_of(two(0b1, 0b1, 0b11), grouping), RefusalCode::malformed) << "two entries of three";
  EXPECT_EQ(code_of(two(0b11, 0b11, 0b11), grouping), RefusalCode::malformed) << "four entries of three";
  EXPECT_EQ(code_of(two(0b11, 0b1, 0b1001), grouping), RefusalCode::index_out_of_range) << "block 3 of 3";
  EXPECT_EQ(code_of(two(0b11, 0b1, 0b111), grouping), RefusalCode::malformed) << "padding";
  const auto full = [](std::uint64_t count, unsigned shift, std::uint64_t blocks, unsigned numbers) {
    return Builder().count(count).u8(kBlocksF32).u8(0x80 | shift).count(blocks).u8(0).u8(numbers).values(count);
  };
  EXPECT_EQ(code_of(full(12, 3, 2, 0b101), grouping), RefusalCode::none) << "8 and the 4 of the last block";
  EXPECT_EQ(code_of(full(16, 3, 2, 0b11), grouping), RefusalCode::none);
  EXPECT_EQ(code_of(full(15, 3, 2, 0b11), grouping), RefusalCode::malformed);
  EXPECT_EQ(code_of(full(11, 3, 2, 0b101), grouping), RefusalCode::malformed);
  EXPECT_EQ(code_of(full(13, 3, 2, 0b101), grouping), RefusalCode::malformed);
  EXPECT_EQ(code_of(full(8, 3, 0, 0b1), grouping), RefusalCode::malformed) << "no blocks";
  EXPECT_EQ(code_of(full(20, 3, 4, 0b1111), grouping), RefusalCode::malformed) << "more blocks than there are";
  EXPECT_EQ(code_of(full(8, 2, 1, 0b1), grouping), RefusalCode::malformed) << "blocks of 4";
  EXPECT_EQ(code_of(full(8, 17, 1, 0b1), grouping), RefusalCode::malformed) << "blocks of 2^17";
  EXPECT_EQ(code_of(Builder().count(3).u8(kBlocksF32).u8(16).count(3).values(3), grouping), RefusalCode::malformed);
}

TEST(PayloadRefusal, NamesTheGroup) {
  const auto payload = Builder().count(0).count(2).u8(kListF32).index(3).index(3).values(2);
  const auto decoded = decode_payload(payload.bytes, {{10, 10}}, {.entries_max = 10, .clip = 2.0F});
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().detail(), "group 1: index 3 behind 3");
}

}  // namespace
}  // namespace gleaner
