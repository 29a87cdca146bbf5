#include "common/text.hpp"

#include <gtest/gtest.h>

#include "common/clock.hpp"
#include "common/ids.hpp"

namespace gleaner {
namespace {

TEST(Nearest, FindsTheMeantWordOrNothing) {
  const std::vector<std::string> names = {"density", "rounds", "deadline_s"};
  EXPECT_EQ(nearest("densty", names), "density");
  EXPECT_EQ(nearest("round", names), "rounds");
  EXPECT_EQ(nearest("zzzzzzzz", names), "");
}

TEST(HumanBytes, ThreeDigits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1000), "1.00 kB");
  EXPECT_EQ(human_bytes(12'345), "12.3 kB");
  EXPECT_EQ(human_bytes(610'598'400), "611 MB");
}

TEST(Names, OnlySafeCharacters) {
  EXPECT_TRUE(is_valid_name("device-07.lab_a"));
  EXPECT_FALSE(is_valid_name(""));
  EXPECT_FALSE(is_valid_name("../x"));
  EXPECT_FALSE(is_valid_name("A"));
  EXPECT_FALSE(is_valid_name(std::string(65, 'a')));
}

TEST(JoinNames, ReadsAsASentence) {
  const std::vector<std::string> three = {"a", "b", "c"};
  EXPECT_EQ(join_names(three), "a, b and c");
  EXPECT_EQ(join_names(std::span(three).first(1)), "a");
}

TEST(Clock, IsoFormat) { EXPECT_EQ(to_iso8601(0), "1970-01-01T00:00:00Z"); }

}  // namespace
}  // namespace gleaner
