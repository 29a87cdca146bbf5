#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compression/upload_rule.hpp"

namespace gleaner {
namespace {

std::unique_ptr<UploadRule> make(std::string_view name, const UploadRuleOptions& options = {}) {
  auto rule = make_upload_rule(name, options);
  EXPECT_TRUE(rule) << name;
  return std::move(*rule);
}

// What a device that has sent before would ask; state is what its rule kept.
struct Question {
  std::vector<float> update = {1.0F, 2.0F};
  std::vector<float> state = {1.0F, 1.0F};
  RuleInput input;

  Question() {
    input = {.weight = 0.5,
             .age = 1,
             .threshold = 1.0F,
             .update = update,
             .candidate_squared_norm = 16.0,
             .state = state,
             .gradient_difference = [] { return Result<double>(0.0); }};
  }
};

std::deque<RoundReport> steps(std::size_t count, double squared_norm) {
  return std::deque<RoundReport>(count, RoundReport{.step_squared_norm = squared_norm, .left_sides = {}});
}

class UploadRules : public ::testing::TestWithParam<std::string> {};

// Every rule sends once its device has been silent for age_max rounds, and so does one that never sent.
TEST_P(UploadRules, AgeIsBounded) {
  const auto rule = make(GetParam(), {.age_max = 7});
  Question question;
  question.input.candidate_squared_norm = 0.0;
  question.input.threshold = 1e30F;
  question.input.age = 7;
  EXPECT_TRUE(rule->decide(question.input)->send);
  question.input.state = {};
  EXPECT_TRUE(rule->decide(question.input)->send);
  question.input.state = question.state;
  question.input.age = 6;
  EXPECT_EQ(rule->decide(question.input)->send, GetParam() == "always");
}

TEST_P(UploadRules, NoHistoryLetsEverybodySend) {
  const auto rule = make(GetParam(), {.skip_share = 0.5});
  EXPECT_EQ(rule->next_threshold({}, 0.1), 0.0F);
  Question question;
  question.input.threshold = 0.0F;
  EXPECT_TRUE(rule->decide(question.input)->send);
}

INSTANTIATE_TEST_SUITE_P(Table, UploadRules, ::testing::ValuesIn(upload_rule_names()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(UploadRuleTable, UnknownNamesAndWrongOptionsAreErrors) {
  const auto unknown = make_upload_rule("lag", {});
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message(), ::testing::HasSubstr("always, residual, lasg-wk2 and clag"));
  for (const UploadRuleOptions& options :
       {UploadRuleOptions{.skip_share = 1.0}, UploadRuleOptions{.skip_share = -0.1}, UploadRuleOptions{.age_max = 0},
        UploadRuleOptions{.c0 = -1.0}, UploadRuleOptions{.history = 0}, UploadRuleOptions{.zeta = std::nan("")}}) {
    const auto rule = make_upload_rule("always", options);
    ASSERT_FALSE(rule);
    EXPECT_EQ(rule.error().code(), ErrorCode::bad_input);
  }
}

TEST(ResidualRule, SendsFromTheThresholdOn) {
  const auto rule = make("residual");
  Question question;  // left side 0.5 * 4
  question.input.threshold = 2.0F;
  const auto at = rule->decide(question.input);
  EXPECT_TRUE(at->send);
  EXPECT_EQ(at->left, 2.0);
  EXPECT_EQ(at->right, 2.0);
  question.input.threshold = std::nextafter(2.0F, 3.0F);
  EXPECT_FALSE(rule->decide(question.input)->send);
}

TEST(ResidualRule, ThresholdIsTheQuantileOfThePreviousRound) {
  const auto threshold = [](double share, std::vector<double> left) {
    const std::deque<RoundReport> history = {{.left_sides = {100.0, 200.0}}, {.left_sides = std::move(left)}};
    return make("residual", {.skip_share = share})->next_threshold(history, 0.1);
  };
  EXPECT_EQ(threshold(0.0, {3.0, 1.0, 2.0, 4.0}), 0.0F);
  EXPECT_EQ(threshold(0.25, {3.0, 1.0, 2.0, 4.0}), 2.0F);
  EXPECT_EQ(threshold(0.5, {3.0, 1.0, 2.0, 4.0}), 3.0F);
  EXPECT_EQ(threshold(0.99, {3.0, 1.0, 2.0, 4.0}), 4.0F);
  EXPECT_EQ(threshold(0.5, {}), 0.0F);
  EXPECT_EQ(threshold(0.5, {std::nan(""), 5.0, INFINITY, -1.0}), 5.0F) << "only sound figures count";
}

// The share of silent devices is the one asked for, also when the quantile is no float.
TEST(ResidualRule, TheAskedShareStaysSilent) {
  std::vector<double> left;
  for (int m = 0; m < 100; ++m) left.push_back(0.1 + 0.0137 * m);
  const auto rule = make("residual", {.skip_share = 0.8});
  const float threshold = rule->next_threshold({{.left_sides = left}}, 0.1);
  int silent = 0;
  for (const double side : left) {
    Question question;
    question.input.weight = side;
    question.input.candidate_squared_norm = 1.0;
    question.input.threshold = threshold;
    silent += rule->decide(question.input)->send ? 0 : 1;
  }
  EXPECT_EQ(silent, 80);
}

// The papers' vector: a server that adds the gradients of M = 10 workers with the rate 0.1, D = 10, ten steps of 0.04:
// R = 0.4 / (10 * 10^2 * 0.1^2) = 0.04. A server that takes their mean makes the same steps with the rate 10 * 0.1.
TEST(LasgWk2, ThresholdOfThePapersVector) {
  const auto rule = make("lasg-wk2", {.history = 10});
  const float threshold = rule->next_threshold(steps(10, 0.04), 10 * 0.1);
  EXPECT_NEAR(threshold, 0.04, 1e-8);
  Question question;
  question.input.threshold = threshold;
  question.input.gradient_difference = [] { return Result<double>(0.0399); };
  EXPECT_FALSE(rule->decide(question.input)->send);
  question.input.gradient_difference = [] { return Result<double>(0.0401); };
  const auto decision = rule->decide(question.input);
  EXPECT_TRUE(decision->send);
  EXPECT_EQ(decision->left, 0.0401);
}

// The trap: with a mean and its own rate 0.1, R is 4, not 4 / M^2 = 0.04, which would be reached by nearly everybody.
TEST(LasgWk2, AMeanHasNoFactorOfTheDevicesSquared) {
  const auto rule = make("lasg-wk2", {.history = 10});
  EXPECT_NEAR(rule->next_threshold(steps(10, 0.04), 0.1), 4.0, 1e-6);
  const auto summing = make("lasg-wk2", {.c0 = 1.0 / (10.0 * 10.0), .history = 10});
  EXPECT_NEAR(summing->next_threshold(steps(10, 0.04), 0.1), 0.04, 1e-8) << "c0 maps a summing server's rate";
}

TEST(LasgWk2, OnlyTheLastStepsCountAndAShortHistoryCountsLess) {
  const auto rule = make("lasg-wk2", {.history = 10});
  auto history = steps(5, 1e6);
  for (const RoundReport& report : steps(10, 0.04)) history.push_back(report);
  EXPECT_NEAR(rule->next_threshold(history, 1.0), 0.04, 1e-8);
  EXPECT_NEAR(rule->next_threshold(steps(4, 0.04), 1.0), 0.016, 1e-8);
}

TEST(LasgWk2, TheSecondGradientIsComputedOnlyWhenItDecides) {
  const auto rule = make("lasg-wk2", {.age_max = 5});
  Question question;
  int computed = 0;
  question.input.gradient_difference = [&] {
    ++computed;
    return Result<double>(0.5);
  };
  question.input.age = 5;
  EXPECT_TRUE(rule->decide(question.input)->send);
  question.input.age = 1;
  question.input.state = {};
  EXPECT_TRUE(rule->decide(question.input)->send);
  question.input.state = question.state;
  question.input.threshold = 0.0F;
  EXPECT_TRUE(rule->decide(question.input)->send);
  EXPECT_EQ(computed, 0);
  question.input.threshold = 1.0F;
  EXPECT_FALSE(rule->decide(question.input)->send);
  EXPECT_EQ(computed, 1);
}

TEST(LasgWk2, FaultsOfTheSecondGradientReachTheCaller) {
  const auto rule = make("lasg-wk2");
  Question question;
  question.input.gradient_difference = [] { return Result<double>(std::nan("")); };
  EXPECT_EQ(rule->decide(question.input).error().code(), ErrorCode::bad_input);
  question.input.gradient_difference = []() -> Result<double> { return fail(ErrorCode::fatal, "no memory"); };
  EXPECT_EQ(rule->decide(question.input).error().message(), "no memory");
}

TEST(Clag, ComparesWithTheChangeOfTheUpdate) {
  const auto rule = make("clag", {.zeta = 4.0});
  Question question;  // ||g - g_prev||^2 = 1
  question.input.candidate_squared_norm = 4.0;
  const auto equal = rule->decide(question.input);
  EXPECT_FALSE(equal->send) << "only beyond";
  EXPECT_EQ(equal->right, 4.0);
  question.input.candidate_squared_norm = 4.001;
  EXPECT_TRUE(rule->decide(question.input)->send);
}

TEST(UploadRuleKinds, MemoryAndState) {
  EXPECT_EQ(make("always")->memory(), MemoryKind::residual);
  EXPECT_EQ(make("residual")->memory(), MemoryKind::residual);
  EXPECT_EQ(make("lasg-wk2")->memory(), MemoryKind::tracked);
  EXPECT_EQ(make("clag")->memory(), MemoryKind::tracked);
  EXPECT_EQ(make("lasg-wk2")->state(), RuleState::last_upload_model);
  EXPECT_EQ(make("clag")->state(), RuleState::previous_update);
}

}  // namespace
}  // namespace gleaner
