#include "coordinator/admin/page.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "tests/coordinator/admin/fake_backend.hpp"

namespace gleaner::admin {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Page, SaysWhatThereIs) {
  const std::string page = to_html(sample_overview());
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  EXPECT_TRUE(page.ends_with("</html>\n"));
  for (const char* part :
       {"Serving: run demo: collecting", "<progress max=\"60\" value=\"11\"></progress> 11 of 60", "83.21 %",
        "1.00 MB <small>of 50.0 MB dense, 50.0×</small>", "2.00 MB <small>of 60.0 MB dense, 30.0×</small>",
        "Accuracy of demo", "points=\"0.0,160.0 360.0,120.0 720.0,80.0 \"", "1 connected of 2 known",
        "<td>jetson-1</td><td>connected</td><td>192.0.2.7:50312</td>", "revoked"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_LT(page.find("demo<br>"), page.find("night<br>")) << "the newest run first";
}

TEST(Page, NeedsNothingFromElsewhereAndComesAgain) {
  const std::string page = to_html(sample_overview());
  EXPECT_THAT(page, HasSubstr("http-equiv=\"refresh\""));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* part : {"<script", "://", "src=\"", "<link", "<img", "url("})
    EXPECT_THAT(page, Not(HasSubstr(part)));
}

TEST(Page, NamesAreEscaped) {
  EXPECT_EQ(escape_html("a<b>&\"c'"), "a&lt;b&gt;&amp;&quot;c&#39;");
  const std::string evil = "<i onload=\"x('y')\">&";
  Overview seen = sample_overview();
  const std::size_t before = [&] {
    const std::string page = to_html(seen);
    return static_cast<std::size_t>(std::ranges::count(page, '<'));
  }();
  seen.health.detail = evil;
  seen.shown = evil;
  seen.runs[0].row.name = evil;
  seen.runs[0].recipe = evil;
  seen.devices[0].row.name.value = evil;
  seen.devices[0].address = evil;
  std::string page = to_html(seen);
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(page, '<')), before);
  EXPECT_THAT(page, Not(HasSubstr("<i ")));
  EXPECT_THAT(page, HasSubstr("&lt;i onload=&quot;x(&#39;y&#39;)&quot;&gt;&amp;"));
  seen.health = {.suspended = true, .reason = evil, .detail = ""};
  page = to_html(seen);
  EXPECT_THAT(page, HasSubstr("Not serving: &lt;i"));
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(page, '<')), before);
}

TEST(Page, IsThereWithoutRunsAndDevices) {
  const std::string page = to_html(Overview{});
  EXPECT_THAT(page, HasSubstr("gleaner run start"));
  EXPECT_THAT(page, HasSubstr("0 connected of 0 known"));
  EXPECT_THAT(page, Not(HasSubstr("<svg")));
}

TEST(Page, FiguresThatAreNoneStayOut) {
  Overview seen = sample_overview();
  seen.rounds.resize(1);
  seen.rounds[0].accuracy = std::numeric_limits<double>::quiet_NaN();
  seen.runs[0].accuracy = std::nan("");
  seen.runs[1].rounds = 0;
  const std::string page = to_html(seen);
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(page, Not(HasSubstr("<svg")));
  EXPECT_THAT(page, HasSubstr("<progress max=\"1\" value=\"0\">"));
}

TEST(Page, StaysSmallHoweverManyDevices) {
  Overview seen = sample_overview();
  seen.devices.clear();
  for (unsigned i = 0; i < 20'000; ++i) seen.devices.push_back(sample_device(fmt::format("d{:05}", i), i));
  const std::string page = to_html(seen);
  EXPECT_THAT(page, HasSubstr("and 19900 more"));
  EXPECT_LT(page.size(), 40'000U);
}

}  // namespace
}  // namespace gleaner::admin
