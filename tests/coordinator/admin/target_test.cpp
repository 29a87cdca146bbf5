#include "coordinator/admin/target.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace gleaner::admin {
namespace {

TEST(Target, SplitsPathAndQuery) {
  const auto target = parse_target("/v1/runs/night-1?rounds=5&path=%2Fetc%2Fa%20b.toml&empty");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->segments, (std::vector<std::string>{"v1", "runs", "night-1"}));
  EXPECT_EQ(target->query.at("rounds"), "5");
  EXPECT_EQ(target->query.at("path"), "/etc/a b.toml");
  EXPECT_EQ(target->query.at("empty"), "");
}

TEST(Target, RefusesWhatIsAmbiguous) {
  for (const char* text : {"",
                           "v1",
                           "http://host/v1",
                           "*",
                           "//v1",
                           "/v1/",
                           "/v1//runs",
                           "/v1/.",
                           "/v1/..",
                           "/%2e%2e",
                           "/a%",
                           "/a%2",
                           "/a%zz",
                           "/a%00",
                           "/a\x01",
                           "/a%0a",
                           "/a?b=1&b=2",
                           "/a?=1",
                           "/1/2/3/4/5/6/7/8/9",
                           "/a?1&2&3&4&5&6&7&8&9"}) {
    const auto target = parse_target(text);
    ASSERT_FALSE(target) << text;
    EXPECT_EQ(target.error().code(), ErrorCode::bad_input);
  }
  EXPECT_FALSE(parse_target("/" + std::string(5000, 'a')));
}

TEST(Target, CountsAreStrict) {
  const auto count = [](const std::string& text) { return count_in(*parse_target("/a?n=" + text), "n", 10, 100); };
  EXPECT_EQ(*count("1"), 1U);
  EXPECT_EQ(*count("100"), 100U);
  EXPECT_EQ(*count_in(*parse_target("/a"), "n", 10, 100), 10U);
  for (const char* text : {"", "0", "101", "-1", "1x", " 1", "1.5", "99999999999"}) EXPECT_FALSE(count(text)) << text;
}

TEST(Target, UnknownKeysAreMistakes) {
  const auto target = *parse_target("/a?round=5");
  EXPECT_FALSE(check_query(target, {"rounds"}));
  EXPECT_FALSE(check_query(target, {}));
  EXPECT_TRUE(check_query(target, {"round", "x"}));
}

RC_GTEST_PROP(Target, EncodedTextComesBack, (const std::string& text)) {
  std::string printable;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) printable.push_back(c);
  }
  const auto target = parse_target("/a?path=" + encode_component(printable));
  RC_ASSERT(target.has_value());
  RC_ASSERT(target->query.at("path") == printable);
}

RC_GTEST_PROP(Target, WhatIsAcceptedIsClean, (const std::string& text)) {
  const auto target = parse_target("/" + text);
  if (!target) return;
  for (const std::string& segment : target->segments) {
    RC_ASSERT(!segment.empty());
    RC_ASSERT(segment != "..");
    for (const char c : segment) RC_ASSERT(static_cast<unsigned char>(c) >= 0x20);
  }
}

}  // namespace
}  // namespace gleaner::admin
