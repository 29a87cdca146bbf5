#include <gmock/gmock.h>
#include <sys/stat.h>

#include <boost/json.hpp>

#include "cli/json_view.hpp"
#include "cli/new_file.hpp"
#include "cli/table.hpp"
#include "tests/cli/cli_run.hpp"

namespace gleaner::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(CommandLine, WrongUsageIsTwo) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{},
                                               {"dance"},
                                               {"run"},
                                               {"run", "dance"},
                                               {"run", "show"},
                                               {"run", "show", "a", "--rounds", "0"},
                                               {"run", "show", "a", "--rounds", "x"},
                                               {"run", "list", "--nope"},
                                               {"devices", "revoke"},
                                               {"db"},
                                               {"pki", "issue"}}) {
    const Ran ran = run_cli(args);
    EXPECT_EQ(ran.code, kUsage) << testing::PrintToString(args);
    EXPECT_THAT(ran.err, StartsWith("gleaner: ")) << testing::PrintToString(args);
    EXPECT_EQ(ran.out, "");
  }
}

TEST(CommandLine, HelpIsOk) {
  const Ran root = run_cli({"--help"});
  EXPECT_EQ(root.code, kOk);
  for (const CommandGroup& group : command_groups()) EXPECT_THAT(root.out, HasSubstr(std::string(group.name)));
  EXPECT_THAT(run_cli({"run", "export", "--help"}).out, HasSubstr("--force"));
}

TEST(CommandLine, TheProgramReturnsTheSameCodes) {
  EXPECT_EQ(run_program({"--help"}).code, kOk);
  EXPECT_EQ(run_program({"dance"}).code, kUsage);
  const Ran nobody = run_program({"run", "list", "--socket", "/nonexistent/gleaner.sock"});
  EXPECT_EQ(nobody.code, kUnreachable);
  EXPECT_THAT(nobody.out, HasSubstr("/nonexistent/gleaner.sock"));
}

TEST(Table, AlignsColumnsByCharacters) {
  Table table({{"NAME"}, {"BYTES", Align::right}});
  table.add({"ü", "1"});
  table.add({"long-name", "12345678"});
  std::ostringstream out;
  table.print(out);
  EXPECT_EQ(out.str(), "NAME          BYTES\nü                 1\nlong-name  12345678\n");
}

TEST(Table, TimesForPeople) {
  EXPECT_EQ(human_span(0.25), "0.25 s");
  EXPECT_EQ(human_span(59.9), "59.9 s");
  EXPECT_EQ(human_span(61), "1 min");
  EXPECT_EQ(human_span(3600 * 5 + 120), "5 h 2 min");
  EXPECT_EQ(human_span(3600.0 * 24 * 90), "90 days");
  EXPECT_EQ(human_time(0, 1000), "-");
  EXPECT_EQ(human_time(1'000'000, 1'120'000), "2 min ago");
  EXPECT_EQ(human_percent(0.8321), "83.21 %");
  EXPECT_EQ(human_percent(std::nullopt), "-");
  EXPECT_EQ(printable("a\x1b[31mb\x7f"), "a?[31mb?");
}

TEST(JsonView, ReadsOlderAndNewerReplies) {
  const auto value = *parse_reply(R"({"a":{"b":[1,"x",2.5,true]},"n":-3})");
  const JsonView view(value);
  EXPECT_EQ(view["a"]["b"].items().size(), 4U);
  EXPECT_EQ(view["a"]["b"].items()[0].count(), 1U);
  EXPECT_EQ(view["a"]["b"].items()[1].text(), "x");
  EXPECT_EQ(view["a"]["b"].items()[2].number(), 2.5);
  EXPECT_TRUE(view["a"]["b"].items()[3].flag());
  EXPECT_EQ(view["n"].count(), 0U);
  EXPECT_EQ(view["missing"]["deeper"].text(), "");
  EXPECT_EQ(view["a"].text(), "");
  EXPECT_FALSE(parse_reply("{").has_value());
}

TEST_F(InTemporaryFolder, NewFileAppearsWholeOrNotAtAll) {
  {
    auto file = NewFile::create(path("a"), Existing::keep);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->write(as_bytes("half")));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  {
    auto file = NewFile::create(path("a"), Existing::keep);
    ASSERT_TRUE(file->write(as_bytes("whole")));
    write("a", "somebody was faster");
    EXPECT_EQ(file->commit().error().code(), ErrorCode::conflict);
  }
  EXPECT_EQ(read("a"), "somebody was faster");
  EXPECT_EQ(NewFile::create(path("a"), Existing::keep).error().code(), ErrorCode::conflict);
  EXPECT_EQ(NewFile::create(path("no/folder"), Existing::keep).error().code(), ErrorCode::bad_input);
  auto file = NewFile::create(path("a"), Existing::replace);
  ASSERT_TRUE(file->write(as_bytes("whole")));
  ASSERT_TRUE(file->commit());
  EXPECT_EQ(read("a"), "whole");
}

TEST_F(InTemporaryFolder, NewFileReplacesPlainFilesAlone) {
  write("target", "stays");
  std::filesystem::create_directory(path("folder"));
  std::filesystem::create_symlink(path("target"), path("link"));
  std::filesystem::create_symlink(path("nowhere"), path("dangling"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const char* name : {"folder", "link", "dangling", "pipe"}) {
    const auto file = NewFile::create(path(name), Existing::replace);
    ASSERT_FALSE(file) << name;
    EXPECT_EQ(file.error().code(), ErrorCode::conflict) << name;
  }
  EXPECT_EQ(read("target"), "stays");
}

}  // namespace
}  // namespace gleaner::cli
