#include "config/document.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/config/temp_folder.hpp"

namespace gleaner::config {
namespace {

using testing::HasSubstr;

TEST(Document, IsATreeInTheOrderOfItsLines) {
  const Document document = parse_document("b = 1\n[z]\nk = \"v\"\n\n[a.x]\nflag = true\n");
  ASSERT_TRUE(document.mistakes.empty());
  const Node& root = document.root;
  ASSERT_EQ(root.children.size(), 3U);
  EXPECT_EQ(root.children[0].name, "b");
  EXPECT_EQ(root.children[0].line, 1U);
  EXPECT_EQ(root.children[1].name, "z");
  EXPECT_EQ(root.children[1].line, 2U);
  EXPECT_TRUE(root.children[1].is_table);
  EXPECT_EQ(root.children[1].children[0].line, 3U);
  EXPECT_EQ(root.children[2].children[0].children[0].line, 6U);
}

TEST(Document, SaysWhatAValueIs) {
  const Document document =
      parse_document("a = 1\nb = 0.5\nc = \"x\\ny\"\nd = false\ne = [1]\nf = 2020-01-01\ng = 10:00:00\nh = inf\n");
  ASSERT_TRUE(document.mistakes.empty());
  std::vector<std::string> said;
  for (const Node& node : document.root.children) said.push_back(describe(node.value));
  EXPECT_THAT(said, testing::ElementsAre("the integer 1", "the number 0.5", "the string \"x\\u000Ay\"", "false",
                                         "an array", "a date", "a time", "the number inf"));
}

TEST(Document, FindsSeveralMistakesOfSyntaxAndReadsTheRest) {
  const Document document = parse_document("a = \nb = 2\nc = 'open\nd = 4\nb = 5\n");
  ASSERT_EQ(document.mistakes.size(), 3U);
  EXPECT_EQ(document.mistakes[0].line, 1U);
  EXPECT_EQ(document.mistakes[1].line, 3U);
  EXPECT_EQ(document.mistakes[2].line, 5U);
  EXPECT_THAT(document.mistakes[2].text, HasSubstr("'b'"));
  ASSERT_EQ(document.root.children.size(), 2U);
  EXPECT_EQ(document.root.children[1].name, "d");
  EXPECT_EQ(document.root.children[1].line, 4U);
}

TEST(Document, StopsAtABrokenHeaderBecauseTheKeysAfterItBelongNowhere) {
  const Document document = parse_document("[a\nb = 2\nc = \n");
  ASSERT_EQ(document.mistakes.size(), 1U);
  EXPECT_EQ(document.mistakes[0].line, 1U);
  EXPECT_TRUE(document.root.children.empty());
}

TEST(Document, NestedTablesEndSomewhere) {
  std::string deep = "a = ";
  for (int i = 0; i < 100'000; ++i) deep += "[";
  EXPECT_FALSE(parse_document(deep).mistakes.empty());
  EXPECT_TRUE(parse_document("[a.b.c.d.e.f]\ng = 1\n").mistakes.empty());
}

RC_GTEST_PROP(Document, AnyBytesEndInAnAnswer, (const std::string& text)) {
  const Document document = parse_document(text);
  for (const SyntaxMistake& mistake : document.mistakes) {
    RC_ASSERT(mistake.line >= 1U);
    RC_ASSERT(mistake.text.find('\n') == std::string::npos);
  }
}

TEST(ReadFile, SaysWhyAndWhatWasTried) {
  const TempFolder folder;
  const auto missing = read_file(folder / "no.toml");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), ErrorCode::bad_input);
  EXPECT_EQ(missing.error().message(),
            folder / "no.toml" + ": cannot be read: No such file or directory (tried " + (folder / "no.toml") + ")");
  const auto directory = read_file(folder.path().string());
  ASSERT_FALSE(directory);
  EXPECT_THAT(directory.error().message(), HasSubstr("it is a directory"));
  const auto large = read_file(folder.write("large.toml", std::string(kMaxFileBytes + 1, '#')));
  ASSERT_FALSE(large);
  EXPECT_THAT(large.error().message(), HasSubstr("more than 1048576 bytes"));
  EXPECT_EQ(read_file(folder.write("a.toml", "a = 1\r\n")).value(), "a = 1\r\n");
}

}  // namespace
}  // namespace gleaner::config
