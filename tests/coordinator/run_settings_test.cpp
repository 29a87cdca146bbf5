#include "coordinator/run_settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "coordinator/recipes/recipes.hpp"
#include "tests/config/temp_folder.hpp"
#include "training/model.hpp"

namespace gleaner {
namespace {

using testing::HasSubstr;

// Ten lines that are right; what a test adds begins at line 8 inside [run].
std::string file_with(const std::string& run, const std::string& rest) {
  return "[data]\nname = \"fashion-mnist\"\n[model]\nname = \"mlp\"\nhidden_units = 200\n[run]\nname = \"a\"\n" + run +
         rest;
}

RunSettings parsed(const std::string& run, const std::string& rest = "") {
  const auto settings = parse_run_settings(file_with(run, rest), "r.toml");
  if (!settings) {
    ADD_FAILURE() << settings.error().message();
    return {};
  }
  return *settings;
}

std::string mistakes_of(const std::string& text) {
  const auto settings = parse_run_settings(text, "r.toml");
  if (settings) return "";
  EXPECT_EQ(settings.error().code(), ErrorCode::bad_input);
  return settings.error().message();
}

std::string mistakes(const std::string& run, const std::string& rest = "") { return mistakes_of(file_with(run, rest)); }

TEST(RunSettingsFile, TheLeastThatIsNeeded) {
  const RunSettings s = parsed("");
  EXPECT_EQ(s.spec.id.value, 0U);
  EXPECT_EQ(s.spec.recipe, "gsasg");
  EXPECT_EQ(s.spec.dimension, 159'010U);
  EXPECT_EQ(s.spec.hidden_units, 200U);
  const auto model = model_spec("mlp", s.shape, {.hidden = 200});
  ASSERT_TRUE(model);
  EXPECT_EQ(s.spec.schema_hash, schema_hash(*model));
  EXPECT_EQ(s.shape.features, 784U);
  EXPECT_EQ(s.planning.dimension, 159'010U);
  EXPECT_EQ(s.planning.deadline, std::chrono::minutes(5));
  EXPECT_EQ(s.rounds, 60U);
}

TEST(RunSettingsFile, RecipesAreRowsOfATable) {
  const RunSettings dense = parsed("recipe = \"fedavg\"\n");
  EXPECT_EQ(dense.spec.compressor, "dense");
  EXPECT_EQ(dense.spec.value_format_up, "f32");
  EXPECT_EQ(dense.spec.upload_rule, "always");
  EXPECT_EQ(dense.step.patch_entries_max, dense.spec.dimension);
  EXPECT_EQ(dense.step.patch_values, ValueFormat::f32);
  EXPECT_FALSE(dense.step.keep_residual);
  EXPECT_FALSE(dense.fixed_divisor);
  const RunSettings topk = parsed("recipe = \"topk\"\n");
  EXPECT_EQ(topk.spec.compressor, "topk");
  EXPECT_EQ(topk.planning.density_up, 0.01);
  EXPECT_EQ(topk.density_down, 0.005);
  EXPECT_EQ(topk.step.patch_entries_max, 795U);
  EXPECT_EQ(topk.spec.value_format_up, "int8");
  EXPECT_TRUE(topk.step.keep_residual);
  EXPECT_TRUE(topk.fixed_divisor);
  EXPECT_EQ(topk.spec.upload_rule, "always");
  EXPECT_EQ(parsed("recipe = \"gsasg\"\n").spec.upload_rule, "residual");
}

TEST(RunSettingsFile, EveryRecipeAloneIsARunThatMakesSense) {
  for (const Recipe& recipe : known_recipes()) {
    const RunSettings s = parsed("recipe = \"" + std::string(recipe.name) + "\"\n");
    EXPECT_EQ(s.spec.recipe, recipe.name);
    EXPECT_FALSE(s.step.tracked);
  }
}

TEST(RunSettingsFile, TheFileOverridesTheRecipe) {
  const RunSettings s = parsed(R"(rounds = 3
recipe = "topk"
seed = 17
[training]
local_epochs = 2
batch_size = 64
learning_rate = 0.1
momentum = 0.5
weight_decay = 0.001
[compression]
density = 0.02
density_down = 0.03
value_format = "f16"
value_format_down = "int8"
per_tensor = true
clip_exponent = 8
[upload]
rule = "lasg-wk2"
age_max = 7
c0 = 2
history = 5
)");
  EXPECT_EQ(s.rounds, 3U);
  EXPECT_EQ(s.spec.seed, 17U);
  EXPECT_EQ(s.planning.seed, 17U);
  EXPECT_EQ(s.spec.local_epochs, 2U);
  EXPECT_EQ(s.planning.local_epochs, 2U);
  EXPECT_EQ(s.planning.batch_size, 64U);
  EXPECT_EQ(s.spec.learning_rate, 0.1F);
  EXPECT_EQ(s.spec.momentum, 0.5F);
  EXPECT_EQ(s.spec.weight_decay, 0.001F);
  EXPECT_EQ(s.planning.density_up, 0.02);
  EXPECT_EQ(s.step.patch_entries_max, 4770U);
  EXPECT_EQ(s.spec.value_format_up, "f16");
  EXPECT_EQ(s.step.patch_values, ValueFormat::int8);
  EXPECT_TRUE(s.spec.per_tensor);
  EXPECT_EQ(s.spec.clip_exponent, 8);
  EXPECT_EQ(s.spec.upload_rule, "lasg-wk2");
  EXPECT_TRUE(s.step.tracked);
  EXPECT_EQ(s.spec.age_max, 7U);
  EXPECT_EQ(s.spec.c0, 2.0);
  EXPECT_EQ(s.spec.rule_history, 5U);
}

TEST(RunSettingsFile, TheFileOverridesCohortAndServerStep) {
  const RunSettings s = parsed("", R"([cohort]
planner = "joint"
size = 20
min_devices = 5
over_selection = 1.5
quorum = 0.9
deadline = "90s"
staleness_max = 3
uplink_bytes_per_round = "10kB"
[server]
optimizer = "momentum"
learning_rate = 0.5
momentum = 0.8
keep_residual = false
patches_kept = 9
)");
  EXPECT_EQ(s.planning.cohort_size, 20U);
  EXPECT_EQ(s.planning.min_devices, 5U);
  EXPECT_EQ(s.planning.over_selection, 1.5);
  EXPECT_EQ(s.planning.quorum, 0.9);
  EXPECT_EQ(s.planning.deadline, std::chrono::seconds(90));
  EXPECT_EQ(s.staleness_max, 3U);
  EXPECT_EQ(s.planning.uplink_bytes_per_round, 10'000U);
  EXPECT_EQ(s.step.optimizer, "momentum");
  EXPECT_EQ(s.step.server_learning_rate, 0.5);
  EXPECT_EQ(s.step.server_momentum, 0.8);
  EXPECT_FALSE(s.step.keep_residual);
  EXPECT_EQ(s.patches_kept, 9U);
}

TEST(RunSettingsFile, SpellingsOfOtherSystemsAreAccepted) {
  const RunSettings s =
      parsed("num_rounds = 5\n[training]\nepochs = 3\n[cohort]\nfraction_fit = 1.0\nmin_fit_clients = 4\n");
  EXPECT_EQ(s.rounds, 5U);
  EXPECT_EQ(s.spec.local_epochs, 3U);
  EXPECT_EQ(s.planning.cohort_size, 0U) << "all";
  EXPECT_EQ(s.planning.min_devices, 4U);
  EXPECT_EQ(parsed("[cohort]\nmin_available_clients = 6\n").planning.min_devices, 6U);
}

TEST(RunSettingsFile, AShareOfTheDevicesIsRefusedWithTheReason) {
  EXPECT_EQ(
      mistakes("[cohort]\nfraction_fit = 0.1\n"),
      "r.toml:9: cohort.fraction_fit: is 0.1, expected 1, or size = 0.1 times the number of your devices: a run's "
      "divisor is fixed, so its cohort is a number");
  EXPECT_EQ(mistakes("[cohort]\nfraction_fit = 0.1\nsize = 3\n"),
            "r.toml:9: cohort.fraction_fit: stands beside cohort.size, which says the same as a number; remove it");
}

TEST(RunSettingsFile, AllMistakesAtOnce) {
  EXPECT_EQ(mistakes(R"(rouns = 3
recipe = "gsagg"
seed = -1
[training]
batch_size = 0
learning_rate = "fast"
[compression]
density = 1.5
value_format = "f8"
[cohort]
deadline = 30
)"),
            R"(r.toml:8: run.rouns: unknown key; did you mean rounds?
r.toml:9: run.recipe: is the string "gsagg", expected "fedavg", "topk" or "gsasg"; did you mean "gsasg"?
r.toml:10: run.seed: is the integer -1, expected an integer of at least 0
r.toml:12: training.batch_size: is the integer 0, expected an integer from 1 to 1048576
r.toml:13: training.learning_rate: is the string "fast", expected a number above 0, at most 1000
r.toml:15: compression.density: is the number 1.5, expected a number above 0, at most 1
r.toml:16: compression.value_format: is the string "f8", expected "f32", "f16", "int8", )"
            R"("bf16", "int4", "ternary" or "sign"; did you mean "f32"?
r.toml:18: cohort.deadline: is the integer 30, expected a duration of at most 30d such as "30s", "1500ms" or "5m")");
}

TEST(RunSettingsFile, DataWithUnknownShapeNeedsItsSizes) {
  EXPECT_EQ(mistakes_of("[run]\nname = \"a\"\n[model]\nname = \"softmax\"\n[data]\nname = \"scans\"\nheight = 8\n"),
            "r.toml:5: data.width: is missing, expected an integer, since the samples of data scans are not known\n"
            "r.toml:5: data.channels: is missing, expected an integer, since the samples of data scans are not known\n"
            "r.toml:5: data.classes: is missing, expected an integer, since the samples of data scans are not known");
  const auto s = parse_run_settings(
      "[run]\nname = \"a\"\n[model]\nname = \"softmax\"\n[data]\nname = \"scans\"\nheight = "
      "8\nwidth = 4\nchannels = 2\nclasses = 3\n",
      "r.toml");
  ASSERT_TRUE(s) << s.error().message();
  EXPECT_EQ(s->shape.features, 64U);
  EXPECT_EQ(s->spec.dimension, 64U * 3U + 3U);
  EXPECT_EQ(s->spec.classes, 3U);
  EXPECT_EQ(s->spec.hidden_units, 0U);
}

TEST(RunSettingsFile, KnownShapesCannotBeContradicted) {
  EXPECT_EQ(
      mistakes_of("[run]\nname = \"a\"\n[model]\nname = \"softmax\"\n[data]\nname = \"mnist\"\nheight = 28\nclasses = "
                  "26\n"),
      "r.toml:8: data.classes: is 26, expected 10, which is what samples of data mnist have");
}

TEST(RunSettingsFile, ImpossibleModelsAreMistakesOfTheirKeys) {
  EXPECT_THAT(
      mistakes_of("[run]\nname = \"a\"\n[model]\nname = \"softmax\"\nhidden_units = 5\n[data]\nname = \"mnist\"\n"),
      testing::StartsWith("r.toml:5: model.hidden_units: model softmax has no hidden layer"));
  EXPECT_THAT(
      mistakes_of("[run]\nname = \"a\"\n[model]\nname = \"softmax\"\n[data]\nname = \"x\"\nheight = 16777216\n"
                  "width = 16777216\nchannels = 16777216\nclasses = 2\n"),
      testing::StartsWith("r.toml:7: data.height: height x width x channels is 16777216 x 16777216 x 16777216"));
  EXPECT_THAT(mistakes_of("[run]\nname = \"a\"\n[model]\nname = \"mpl\"\n[data]\nname = \"mnist\"\n"),
              HasSubstr("; did you mean \"mlp\"?"));
}

TEST(RunSettingsFile, SettingsWithoutEffectAreMistakes) {
  EXPECT_EQ(mistakes("recipe = \"topk\"\n[upload]\nzeta = 1\nc0 = 1\nhistory = 3\nskip_share = 0.1\nage_max = 3\n"
                     "[server]\nmomentum = 0.5\n[evaluation]\nevery = 2\n"),
            R"(r.toml:10: upload.zeta: has no effect with upload.rule = "always", only with "clag"; remove one of them
r.toml:11: upload.c0: has no effect with upload.rule = "always", only with "lasg-wk2"; remove one of them
r.toml:12: upload.history: has no effect with upload.rule = "always", only with "lasg-wk2"; remove one of them
r.toml:13: upload.skip_share: has no effect with upload.rule = "always", only with "residual"; remove one of them
r.toml:14: upload.age_max: has no effect with upload.rule = "always", which is never silent; remove it
r.toml:16: server.momentum: has no effect with server.optimizer = "sgd", only with "momentum"; remove one of them
r.toml:18: evaluation.every: has no effect without data.evaluation, the directory with the test set; add it)");
  EXPECT_EQ(mistakes("[cohort]\nplanner = \"uniform\"\nuplink_bytes_per_round = 1000\n"),
            "r.toml:10: cohort.uplink_bytes_per_round: has no effect with cohort.planner = \"uniform\", only with "
            "\"joint\"; remove one of them");
  EXPECT_THAT(mistakes("recipe = \"fedavg\"\n[compression]\ndensity = 0.1\nper_tensor = true\n"),
              testing::AllOf(HasSubstr("r.toml:10: compression.density: has no effect with the compressor dense"),
                             HasSubstr("r.toml:11: compression.per_tensor: has no effect with the compressor dense")));
}

TEST(RunSettingsFile, CombinationsWithoutSenseAreRefusedWithTheReason) {
  EXPECT_THAT(mistakes("recipe = \"fedavg\"\n[upload]\nrule = \"clag\"\n"),
              HasSubstr("r.toml:10: upload.rule: clag does not go with the compressor dense: "));
  EXPECT_EQ(
      mistakes("recipe = \"fedavg\"\n[compression]\ncompressor = \"topk\"\n"),
      "r.toml:9: compression.density: is missing, expected a number above 0, below 1 with the compressor topk: the "
      "recipe fedavg sends every entry\n"
      "r.toml:10: compression.compressor: the divisor is the weight that arrived, which does not go with "
      "compression.compressor = \"topk\": what devices keep back would be divided by another weight than what they "
      "sent; set server.divisor = \"fixed\"");
  EXPECT_THAT(mistakes("[server]\ndivisor = \"arrived\"\n"),
              testing::StartsWith("r.toml:9: server.divisor: the divisor "));
  EXPECT_THAT(mistakes("recipe = \"fedavg\"\n[upload]\nrule = \"lasg-wk2\"\n"),
              testing::StartsWith("r.toml:10: upload.rule: the divisor is the weight that arrived"));
  EXPECT_EQ(mistakes("recipe = \"fedavg\"\n[compression]\ncompressor = \"topk\"\ndensity = 0.1\n[server]\ndivisor = "
                     "\"fixed\"\n"),
            "");
  EXPECT_EQ(mistakes("recipe = \"fedavg\"\n[upload]\nrule = \"lasg-wk2\"\n[server]\ndivisor = \"fixed\"\n"), "");
  EXPECT_EQ(mistakes("[compression]\nvalue_format = \"f16\"\nclip_exponent = 16\n"),
            "r.toml:10: compression.clip_exponent: is 16, expected at most 15 with the value format f16, which holds "
            "nothing larger");
  EXPECT_EQ(mistakes("recipe = \"fedavg\"\n[compression]\nvalue_format = \"sign\"\n"),
            "r.toml:10: compression.value_format: is sign, expected another one with the compressor dense: a scaled "
            "sign says nothing of entries that differ in size, take ternary");
  EXPECT_EQ(mistakes("[compression]\nvalue_format = \"sign\"\nvalue_format_down = \"ternary\"\n"), "");
  EXPECT_EQ(mistakes("[cohort]\nsize = 3\nmin_devices = 4\n"),
            "r.toml:10: cohort.min_devices: is 4, expected at most cohort.size, which is 3");
}

TEST(RunSettingsFile, ReproducibleRunsHaveOneCohortThatAnswersWhole) {
  const RunSettings s = parsed("reproducible = true\n[cohort]\nsize = 8\n");
  EXPECT_TRUE(s.planning.reproducible);
  EXPECT_EQ(s.planning.min_devices, 8U);
  EXPECT_EQ(s.planning.quorum, 1.0);
  EXPECT_EQ(s.planning.deadline, Duration(0));
  EXPECT_EQ(parsed("reproducible = true\n[cohort]\nmin_devices = 5\n").planning.cohort_size, 5U);
  EXPECT_EQ(
      mistakes("reproducible = true\n"),
      "r.toml:1: cohort.size: is 0 or missing, expected the number of devices: a reproducible run has the same cohort "
      "in every round");
  const std::string all = mistakes(
      "reproducible = true\n[cohort]\nsize = 8\nmin_devices = 4\nquorum = 0.5\ndeadline = \"1m\"\nover_selection = 2\n"
      "uplink_bytes_per_round = 1000\n");
  for (const char* key : {"11: cohort.min_devices", "12: cohort.quorum", "13: cohort.deadline",
                          "14: cohort.over_selection", "15: cohort.uplink_bytes_per_round"}) {
    EXPECT_THAT(all, HasSubstr(std::string("r.toml:") + key + ": does not go with run.reproducible"));
  }
}

TEST(RunSettingsFile, TheTestSetMustBeThere) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "test");
  const std::string text = "[run]\nname = \"a\"\n[model]\nname = \"mlp\"\n[data]\nname = \"mnist\"\nevaluation = ";
  const auto found = parse_run_settings(text + "\"test\"\n", folder / "r.toml");
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(found->evaluation_data, folder / "test");
  const auto missing = parse_run_settings(text + "\"tset\"\n", folder / "r.toml");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message(), folder / "r.toml" + ":7: data.evaluation: no such directory: " +
                                           (folder / "tset") + ", expected the path of a readable directory");
}

TEST(RunSettingsFile, TheExamplesLoad) {
  for (const std::string name : {"run-gsasg", "run-fedavg"}) {
    const std::string path = std::string(GLEANER_EXAMPLES) + "/" + name + ".toml";
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    const auto settings = parse_run_settings(text.str(), path);
    ASSERT_TRUE(settings) << settings.error().message();
    EXPECT_EQ("run-" + settings->spec.recipe, name);
    EXPECT_EQ(settings->spec.dimension, 159'010U);
    EXPECT_EQ(settings->planning.min_devices, 4U);
  }
}

}  // namespace
}  // namespace gleaner
