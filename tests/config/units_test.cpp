#include "config/units.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>

#include "config/document.hpp"

namespace gleaner::config {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(Units, DurationsHaveAnIntegerAndAUnit) {
  EXPECT_EQ(parse_duration("30s"), seconds(30));
  EXPECT_EQ(parse_duration("1500ms"), milliseconds(1500));
  EXPECT_EQ(parse_duration("5m"), minutes(5));
  EXPECT_EQ(parse_duration("2 h"), hours(2));
  EXPECT_EQ(parse_duration("1d"), hours(24));
  EXPECT_EQ(parse_duration("0s"), Duration(0));
  for (const char* bad : {"", "s", "30", "30 ", "30sec", "-1s", "1.5s", " 1s", "1s ", "+1s", "1M", "0x1s",
                          "9223372036854775808ns", "9223372037s", "106752d"}) {
    EXPECT_EQ(parse_duration(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(parse_duration("9223372036854775807ns"), Duration::max());
}

RC_GTEST_PROP(Units, DurationsReadBack, (std::int64_t ns)) {
  const Duration duration(ns < 0 ? -(ns + 1) : ns);
  RC_ASSERT(parse_duration(format_duration(duration)) == duration);
}

TEST(Units, DurationsAreShownInTheLargestExactUnit) {
  EXPECT_EQ(format_duration(seconds(90)), "90s");
  EXPECT_EQ(format_duration(minutes(120)), "2h");
  EXPECT_EQ(format_duration(Duration(1)), "1ns");
  EXPECT_EQ(format_duration(Duration(0)), "0s");
}

TEST(Units, SizesAreBinaryOrDecimal) {
  EXPECT_EQ(parse_byte_size("64MiB"), 64ULL << 20);
  EXPECT_EQ(parse_byte_size("2GB"), 2'000'000'000ULL);
  EXPECT_EQ(parse_byte_size("10 kB"), 10'000ULL);
  EXPECT_EQ(parse_byte_size("7B"), 7ULL);
  for (const char* bad : {"", "64", "64mib", "1.5MiB", "-1B", "8388608TiB", "64MiBs"}) {
    EXPECT_EQ(parse_byte_size(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(format_byte_size(64ULL << 20), "64MiB");
  EXPECT_EQ(format_byte_size(0), "0B");
}

RC_GTEST_PROP(Units, SizesReadBack, (std::uint64_t any)) {
  const std::uint64_t bytes = any >> 1;
  RC_ASSERT(parse_byte_size(format_byte_size(bytes)) == bytes);
}

TEST(Units, EndpointsWithAndWithoutBrackets) {
  std::string fault;
  const auto check = [&](std::string_view text, std::string_view host, std::optional<std::uint16_t> port) {
    const auto parsed = parse_endpoint(text, fault);
    ASSERT_TRUE(parsed) << text << ": " << fault;
    EXPECT_EQ(parsed->host, host);
    EXPECT_EQ(parsed->port, port);
  };
  check("example.org:7433", "example.org", 7433);
  check("10.0.0.1:1", "10.0.0.1", 1);
  check("[::1]:65535", "::1", 65535);
  check("[fe80::1%eth0]", "fe80::1%eth0", std::nullopt);
  check("localhost", "localhost", std::nullopt);
  check("localhost:0", "localhost", 0);
}

TEST(Units, EndpointsThatAreNone) {
  const auto fault_of = [](std::string_view text) {
    std::string fault;
    EXPECT_FALSE(parse_endpoint(text, fault)) << text;
    return fault;
  };
  EXPECT_EQ(fault_of("::1:7433"), "whose IPv6 address stands in no brackets");
  EXPECT_EQ(fault_of("[::1:7433"), "whose bracket is not closed");
  EXPECT_EQ(fault_of(":7433"), "which names no host");
  EXPECT_EQ(fault_of(""), "which names no host");
  EXPECT_EQ(fault_of("[]:1"), "which names no host");
  EXPECT_EQ(fault_of("[localhost]:1"), "whose host is no name and no address");
  EXPECT_EQ(fault_of("a/b:1"), "whose host is no name and no address");
  for (const char* bad : {"a:65536", "a:", "a:-1", "a:1x", "https://a", "[::1]7433", "[::1]:"}) {
    EXPECT_EQ(fault_of(bad), "whose port is no number from 0 to 65535") << bad;
  }
}

TEST(Units, NumbersAlwaysLookLikeNumbers) {
  EXPECT_EQ(format_number(1.0), "1.0");
  EXPECT_EQ(format_number(-0.0), "-0.0");
  EXPECT_EQ(format_number(0.1), "0.1");
  EXPECT_EQ(format_number(0.1F), "0.1");
  EXPECT_EQ(format_number(1e300), "1e+300");
}

std::optional<double> read_number(const std::string& text) {
  const Document document = parse_document("x = " + text);
  if (!document.mistakes.empty() || document.root.children.size() != 1) return std::nullopt;
  const auto* value = std::get_if<double>(&document.root.children[0].value.scalar);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

RC_GTEST_PROP(Units, NumbersReadBackToTheLastBit, (std::uint64_t bits)) {
  const auto value = std::bit_cast<double>(bits);
  RC_PRE(std::isfinite(value));
  const auto read = read_number(format_number(value));
  RC_ASSERT(read.has_value());
  RC_ASSERT(std::bit_cast<std::uint64_t>(*read) == bits);
}

RC_GTEST_PROP(Units, FloatsReadBackToTheLastBit, (std::uint32_t bits)) {
  const auto value = std::bit_cast<float>(bits);
  RC_PRE(std::isfinite(value));
  const auto read = read_number(format_number(value));
  RC_ASSERT(read.has_value());
  RC_ASSERT(std::bit_cast<std::uint32_t>(static_cast<float>(*read)) == bits);
}

TEST(Units, HardNumbersReadBack) {
  for (const double value : {0x1p-1074, 0x1.fffffffffffffp-1023, 0x1p-1022, 0x1.fffffffffffffp1023, 0x1p53 + 2, 1e22,
                             1e23, 123456789012345680.0, 5e-324, 0.1 + 0.2, -0.0}) {
    const auto read = read_number(format_number(value));
    ASSERT_TRUE(read) << format_number(value);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(*read), std::bit_cast<std::uint64_t>(value)) << format_number(value);
  }
}

RC_GTEST_PROP(Units, StringsReadBack, ()) {
  const auto text = *rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127));
  const Document document = parse_document("x = " + quote(text));
  RC_ASSERT(document.mistakes.empty());
  RC_ASSERT(std::get<std::string>(document.root.children.at(0).value.scalar) == text);
}

}  // namespace
}  // namespace gleaner::config
