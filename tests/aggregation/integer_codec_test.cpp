#include "aggregation/integer_codec.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace gleaner {
namespace {

constexpr std::uint64_t kBound = std::uint64_t{1} << 62;

Bytes coded(std::span<const std::int64_t> values) {
  Bytes out;
  put_integers(out, values);
  return out;
}

// Reads bytes as `count` integers; true when they are accepted, which means that they are what would be written.
bool accepts(const Bytes& bytes, std::size_t count, std::uint64_t bound = kBound) {
  std::vector<std::int64_t> values(count);
  ByteReader in(bytes);
  const bool ok = get_integers(in, values, bound).has_value() && in.at_end();
  if (ok) EXPECT_EQ(coded(values), bytes);
  return ok;
}

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes out;
  for (const int value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

RC_GTEST_PROP(Integers, RoundTripWithAllMagnitudes, ()) {
  const auto size = *rc::gen::inRange<std::size_t>(0, 100);
  std::vector<std::int64_t> values(size);
  const auto zeros = *rc::gen::inRange(0, 11);
  const auto common_shift = *rc::gen::inRange(0, 40);
  for (auto& value : values) {
    if (*rc::gen::inRange(0, 10) < zeros) continue;
    const auto bits = *rc::gen::inRange(0, 63 - common_shift);
    value = (*rc::gen::arbitrary<std::int64_t>() >> (63 - bits)) * (std::int64_t{1} << common_shift);
  }
  const Bytes bytes = coded(values);
  std::vector<std::int64_t> read(size);
  ByteReader in(bytes);
  RC_ASSERT(get_integers(in, read, kBound).has_value());
  RC_ASSERT(in.at_end());
  RC_ASSERT(read == values);
}

TEST(Integers, TakeTheShorterForm) {
  EXPECT_EQ(coded(std::vector<std::int64_t>{0, 0, 0}), bytes_of({0, 0, 0}));
  EXPECT_EQ(coded(std::vector<std::int64_t>{0, 8}), bytes_of({1, 3, 0, 2}));
  EXPECT_EQ(coded(std::vector<std::int64_t>{0, 0, 8}), bytes_of({0, 3, 1, 2, 2})) << "a tie";
  EXPECT_EQ(coded(std::vector<std::int64_t>{0, 0, 0, 0, -8}), bytes_of({0, 3, 1, 4, 1}));
  EXPECT_EQ(coded({}), bytes_of({1, 0})) << "nothing takes no byte, a count of zero would";
}

TEST(Integers, RefuseAnyOtherSpelling) {
  EXPECT_TRUE(accepts(bytes_of({0, 3, 1, 4, 1}), 5));
  EXPECT_FALSE(accepts(bytes_of({0, 3, 1, 5, 1}), 5)) << "beyond the dimension";
  EXPECT_FALSE(accepts(bytes_of({0, 3, 6, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1}), 5)) << "more than the dimension";
  EXPECT_FALSE(accepts(bytes_of({0, 3, 1, 4, 0}), 5)) << "a zero is not listed";
  EXPECT_FALSE(accepts(bytes_of({0, 2, 1, 4, 4}), 5)) << "shift is not the largest";
  EXPECT_FALSE(accepts(bytes_of({1, 3, 0, 0, 0, 0, 1}), 5)) << "not the shorter form";
  EXPECT_FALSE(accepts(bytes_of({2, 0, 0}), 5)) << "no such form";
  EXPECT_FALSE(accepts(bytes_of({0, 63, 1, 4, 1}), 5)) << "no such shift";
  EXPECT_FALSE(accepts(bytes_of({0, 3, 1, 4}), 5)) << "cut off";
  EXPECT_FALSE(accepts(bytes_of({0, 3, 1, 0x84, 0, 1}), 5)) << "a longer varint";
  EXPECT_FALSE(accepts(bytes_of({1, 0}), 5)) << "cut off";
  EXPECT_TRUE(accepts(bytes_of({0, 3, 1, 4, 1}), 5, 8));
  EXPECT_FALSE(accepts(bytes_of({0, 3, 1, 4, 1}), 5, 7)) << "beyond the bound";
}

RC_GTEST_PROP(Integers, AnyBytesAreReadSafely, ()) {
  auto bytes = *rc::gen::container<std::vector<std::uint8_t>>(rc::gen::arbitrary<std::uint8_t>());
  if (bytes.size() > 2) bytes[0] %= 2;
  Bytes raw(bytes.size());
  std::ranges::transform(bytes, raw.begin(), [](std::uint8_t b) { return std::byte{b}; });
  accepts(raw, *rc::gen::inRange<std::size_t>(0, 30));
}

}  // namespace
}  // namespace gleaner
