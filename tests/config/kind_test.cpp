#include "config/kind.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace gleaner::config {
namespace {

Value of(std::int64_t v) { return {v, {}}; }
Value of(double v) { return {v, {}}; }
Value of(bool v) { return {v, {}}; }
Value of(const char* v) { return {std::string(v), {}}; }
Value array() { return {std::monostate{}, "an array"}; }

std::string fault(const Kind& kind, const Value& value) {
  const auto found = kind.set(value);
  return found ? found->what : "";
}

TEST(Kind, IntegersHaveARange) {
  std::uint32_t into = 7;
  const Kind kind = integer(into, {1, 9});
  EXPECT_EQ(kind.expected, "an integer from 1 to 9");
  EXPECT_EQ(fault(kind, of(std::int64_t{9})), "");
  EXPECT_EQ(into, 9U);
  EXPECT_EQ(kind.show(), "9");
  EXPECT_EQ(fault(kind, of(std::int64_t{10})), "is the integer 10");
  EXPECT_EQ(fault(kind, of(std::int64_t{0})), "is the integer 0");
  EXPECT_EQ(fault(kind, of(5.0)), "is the number 5.0");
  EXPECT_EQ(fault(kind, of("5")), "is the string \"5\"");
  EXPECT_EQ(fault(kind, of(true)), "is true");
  EXPECT_EQ(fault(kind, array()), "is an array");
  EXPECT_EQ(into, 9U) << "a refused value changes nothing";
}

TEST(Kind, IntegersCoverTheirTypeAsFarAsTomlGoes) {
  std::uint64_t wide = 0;
  const Kind kind = integer(wide);
  EXPECT_EQ(kind.expected, "an integer of at least 0");
  EXPECT_EQ(fault(kind, of(std::numeric_limits<std::int64_t>::max())), "");
  EXPECT_EQ(wide, 0x7fffffffffffffffULL);
  EXPECT_EQ(fault(kind, of(std::int64_t{-1})), "is the integer -1");
  std::int32_t narrow = 0;
  EXPECT_NE(fault(integer(narrow), of(std::int64_t{1} << 31)), "");
  EXPECT_EQ(fault(integer(narrow), of(-(std::int64_t{1} << 31))), "");
  EXPECT_EQ(narrow, std::numeric_limits<std::int32_t>::min());
}

TEST(Kind, NumbersKnowOpenEndsAndRoundingToFloat) {
  double into = 0.5;
  const Kind kind = number(into, {.least = 0, .most = 1, .excluded = Excluded::least});
  EXPECT_EQ(kind.expected, "a number above 0, at most 1");
  EXPECT_EQ(fault(kind, of(std::int64_t{1})), "");
  EXPECT_EQ(into, 1.0);
  EXPECT_NE(fault(kind, of(0.0)), "");
  EXPECT_NE(fault(kind, of(1.0000001)), "");
  EXPECT_NE(fault(kind, of(std::nan(""))), "");
  EXPECT_NE(fault(kind, of("0.5")), "");
  float narrow = 0.5F;
  const Kind rounded = number(narrow, {.least = 0, .most = 1, .excluded = Excluded::least});
  EXPECT_NE(fault(rounded, of(1e-60)), "") << "is zero as a float";
  const Kind below = number(narrow, {.least = 0, .most = 1, .excluded = Excluded::most});
  EXPECT_EQ(below.expected, "a number of at least 0, below 1");
  EXPECT_NE(fault(below, of(0.9999999999)), "") << "is one as a float";
  EXPECT_NE(fault(number(narrow), of(1e60)), "") << "is infinite as a float";
  EXPECT_NE(fault(number(into), of(INFINITY)), "");
  EXPECT_EQ(number(into).expected, "a number");
}

TEST(Kind, NamesListTheCandidatesAndTheNearest) {
  std::string into = "dense";
  const Kind kind = one_of(into, {"dense", "topk"});
  EXPECT_EQ(kind.expected, "\"dense\" or \"topk\"");
  EXPECT_EQ(kind.set(of("dens"))->meant, "\"dense\"");
  EXPECT_EQ(kind.set(of("zzzzzzzz"))->meant, "");
  EXPECT_EQ(fault(kind, of("topk")), "");
  EXPECT_EQ(into, "topk");
  LogLevel level = LogLevel::info;
  EXPECT_EQ(log_level(level).show(), "\"info\"");
  EXPECT_EQ(fault(log_level(level), of("warn")), "");
  EXPECT_EQ(level, LogLevel::warn);
}

TEST(Kind, DurationsSizesFlagsBitsAndNames) {
  Duration time{};
  const Kind span = duration(time, {std::chrono::seconds(1), std::chrono::minutes(1)});
  EXPECT_EQ(span.expected, R"(a duration from 1s to 1m such as "30s", "1500ms" or "5m")");
  EXPECT_EQ(fault(span, of("59s")), "");
  EXPECT_EQ(time, std::chrono::seconds(59));
  EXPECT_NE(fault(span, of("61s")), "");
  EXPECT_NE(fault(span, of(std::int64_t{30})), "");

  std::uint64_t bytes = 0;
  const Kind size = byte_size(bytes, {10, 1024});
  EXPECT_EQ(fault(size, of("1KiB")), "");
  EXPECT_EQ(fault(size, of(std::int64_t{11})), "");
  EXPECT_EQ(bytes, 11U);
  EXPECT_NE(fault(size, of("9B")), "");
  EXPECT_NE(fault(size, of(std::int64_t{-1})), "");

  bool on = false;
  EXPECT_EQ(fault(flag(on), of(true)), "");
  EXPECT_TRUE(on);
  EXPECT_NE(fault(flag(on), of(std::int64_t{1})), "");

  std::uint64_t hash = 0;
  EXPECT_EQ(fault(bits(hash), of("fedcba9876543210")), "");
  EXPECT_EQ(hash, 0xfedcba9876543210ULL);
  EXPECT_EQ(bits(hash).show(), "\"fedcba9876543210\"");
  for (const char* bad : {"", "fedcba987654321", "fedcba98765432100", "0xfedcba98765432", "-edcba9876543210"}) {
    EXPECT_NE(fault(bits(hash), of(bad)), "") << bad;
  }

  std::string called;
  EXPECT_EQ(fault(name(called), of("a-1.b_c")), "");
  EXPECT_NE(fault(name(called), of("A")), "");
  EXPECT_NE(fault(name(called), of("")), "");
  EXPECT_NE(fault(text(called), of(false)), "");
}

}  // namespace
}  // namespace gleaner::config
