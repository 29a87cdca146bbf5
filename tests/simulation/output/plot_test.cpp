#include "simulation/output/plot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/config/temp_folder.hpp"

namespace gleaner::simulation {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

Recording recording(std::string name) {
  Recording made{.label = {.experiment = std::move(name), .data = "mnist"}, .rounds = {}};
  for (std::uint32_t r = 1; r <= 4; ++r) {
    made.rounds.push_back({.round = r,
                           .version = r,
                           .virtual_s = 100.0 * r,
                           .accuracy = r % 2 == 0 ? std::optional(0.1 * r) : std::nullopt,
                           .frame_bytes_up = 300'000,
                           .frame_bytes_down = 700'000});
  }
  return made;
}

// A gnuplot of the test's own, alone on PATH.
class Plots : public testing::Test {
 protected:
  void SetUp() override { old_path_ = std::getenv("PATH"); }
  void TearDown() override { ::setenv("PATH", old_path_.c_str(), 1); }

  void take_gnuplot(const std::string& script) {
    const std::string path = folder_.write("bin/gnuplot", "#!/bin/sh\nPATH=" + old_path_ + "\n" + script);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    ::setenv("PATH", (folder_ / "bin").c_str(), 1);
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    std::error_code code;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "out", code)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  TempFolder folder_;
  std::string old_path_;
};

TEST(PlotScript, CurvesOverEachAxis) {
  const std::vector<Recording> both = {recording("a"), recording("b")};
  const std::string rounds = plot_script(both, PlotAxis::rounds, "/x/y.svg");
  EXPECT_THAT(rounds, AllOf(HasSubstr("set output '/x/y.svg'\n"), HasSubstr("set xlabel 'rounds'\n"),
                            HasSubstr("$curve0 << END_OF_CURVE\n2 0.2\n4 0.4\nEND_OF_CURVE\n"),
                            HasSubstr("title 'a (mnist)', $curve1"), HasSubstr("title 'b (mnist)'\nunset output\n")));
  EXPECT_THAT(plot_script(both, PlotAxis::bytes, "f"),
              AllOf(HasSubstr("'MB in both directions'"), HasSubstr("\n2 0.2\n4 0.4\n")));
  EXPECT_THAT(plot_script(both, PlotAxis::virtual_time, "f"),
              AllOf(HasSubstr("'minutes of virtual time'"), HasSubstr("\n3.3333333333333335 0.2\n")));
}

TEST(PlotScript, TextStaysText) {
  Recording hostile = recording("a'; system('rm x'); set title 'b\nquit");
  const std::string script = plot_script(std::span(&hostile, 1), PlotAxis::rounds, "f'\n");
  EXPECT_THAT(script, AllOf(HasSubstr("title 'a''; system(''rm x''); set title ''b quit (mnist)'\n"),
                            HasSubstr("set output 'f'' '\n"), Not(HasSubstr("\nquit"))));
}

TEST_F(Plots, GnuplotGetsTheScriptsAndMakesThreeFiles) {
  // Writes what it reads to where the script says.
  take_gnuplot("cat > " + (folder_ / "script") + "\ncp " + (folder_ / "script") +
               " \"$(sed -n \"s/^set output '\\(.*\\)'/\\1/p\" " + (folder_ / "script") + ")\"\n");
  const std::vector<Recording> one = {recording("a")};
  const auto paths = plot(one, folder_ / "out");
  ASSERT_TRUE(paths) << paths.error().message();
  EXPECT_THAT(files(), testing::UnorderedElementsAre("accuracy-rounds.svg", "accuracy-bytes.svg", "accuracy-time.svg"));
  EXPECT_THAT(*paths, testing::ElementsAre(folder_ / "out/accuracy-rounds.svg", folder_ / "out/accuracy-bytes.svg",
                                           folder_ / "out/accuracy-time.svg"));
  EXPECT_THAT(read(folder_ / "out/accuracy-bytes.svg"), HasSubstr("MB in both directions"));
}

TEST_F(Plots, AFailureSaysWhyAndLeavesNothing) {
  take_gnuplot("cat > /dev/null\necho\necho 'unknown terminal type' >&2\nexit 3\n");
  const std::vector<Recording> one = {recording("a")};
  const auto paths = plot(one, folder_ / "out");
  ASSERT_FALSE(paths);
  EXPECT_EQ(paths.error().message(), "gnuplot ended with exit code 3: unknown terminal type");
  EXPECT_THAT(files(), testing::IsEmpty());
}

TEST_F(Plots, OneThatReadsNothingIsNoHang) {
  take_gnuplot("exit 1\n");
  std::vector<Recording> large = {recording("a")};
  for (std::uint32_t r = 5; r < 200'000; ++r) large[0].rounds.push_back({.round = r, .accuracy = 0.5});
  const auto paths = plot(large, folder_ / "out");
  ASSERT_FALSE(paths);
  EXPECT_EQ(paths.error().message(), "gnuplot ended with exit code 1");
}

TEST_F(Plots, WithoutGnuplot) {
  ::setenv("PATH", (folder_ / "empty").c_str(), 1);
  const std::vector<Recording> one = {recording("a")};
  const auto paths = plot(one, folder_ / "out");
  ASSERT_FALSE(paths);
  EXPECT_EQ(paths.error().code(), ErrorCode::not_found);
  EXPECT_THAT(paths.error().message(), HasSubstr("there is no gnuplot on PATH"));
}

TEST_F(Plots, NothingToPlot) {
  std::vector<Recording> none = {recording("a")};
  for (RoundRecord& r : none[0].rounds) r.accuracy.reset();
  EXPECT_EQ(plot(none, folder_ / "out").error().code(), ErrorCode::bad_input);
  EXPECT_EQ(plot({}, folder_ / "out").error().code(), ErrorCode::bad_input);
}

// With the real one, where it is installed.
TEST_F(Plots, TheRealOneDrawsThem) {
  if (std::system("command -v gnuplot > /dev/null 2>&1") != 0) GTEST_SKIP() << "gnuplot is not installed";
  const std::vector<Recording> both = {recording("a_b"), recording("it's")};
  const auto paths = plot(both, folder_ / "out");
  ASSERT_TRUE(paths) << paths.error().message();
  for (const std::string& path : *paths) {
    EXPECT_THAT(read(path), AllOf(HasSubstr("<svg"), HasSubstr("a_b (mnist)"), HasSubstr("</svg>"))) << path;
  }
}

}  // namespace
}  // namespace gleaner::simulation
