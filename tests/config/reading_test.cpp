#include "config/reading.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace gleaner::config {
namespace {

struct Settings {
  std::uint32_t rounds = 60;
  std::string name;
  double rate = 0.5;
  std::map<std::string, std::string> paths;
};

Schema schema_of(Settings& s) {
  Schema schema;
  schema.sections = {
      {"run",
       "",
       {{.name = "name", .kind = text(s.name), .description = "", .need = Need::required},
        {.name = "rounds", .kind = integer(s.rounds, {1, 100}), .description = "", .aliases = {"num_rounds"}}}},
      {"training", "", {{.name = "rate", .kind = number(s.rate, {.least = 0, .most = 1}), .description = ""}}}};
  schema.named = {{"data", "", [&s](const std::string& entry) {
                     return std::vector<Key>{
                         {.name = "path", .kind = text(s.paths[entry]), .description = "", .need = Need::required}};
                   }}};
  return schema;
}

std::string mistakes_in(std::string_view toml) {
  Settings settings;
  Reading reading(toml, "a.toml");
  reading.bind(schema_of(settings));
  const Status status = reading.status();
  if (!status) EXPECT_EQ(status.error().code(), ErrorCode::bad_input);
  return status ? "" : status.error().message();
}

TEST(Reading, StoresWhatIsThereAndKeepsTheRest) {
  Settings settings;
  Reading reading("[run]\nname = \"x\"\nnum_rounds = 7\n[data.a-1]\npath = \"p\"\n", "a.toml");
  reading.bind(schema_of(settings));
  ASSERT_TRUE(reading.status());
  EXPECT_EQ(settings.name, "x");
  EXPECT_EQ(settings.rounds, 7U);
  EXPECT_EQ(settings.rate, 0.5);
  EXPECT_EQ(settings.paths.at("a-1"), "p");
  EXPECT_TRUE(reading.given("run.rounds")) << "by its own name";
  EXPECT_FALSE(reading.given("training.rate"));
}

TEST(Reading, AllMistakesAtOnceInTheOrderOfTheirLines) {
  EXPECT_EQ(mistakes_in("[run]\n"
                        "roundz = 5\n"
                        "rounds = \"many\"\n"
                        "[training]\n"
                        "rate = 1.5\n"
                        "zzzzzzzzzz = 1\n"
                        "[tranning]\n"
                        "rate = 1\n"),
            "a.toml:1: run.name: is missing, expected a string\n"
            "a.toml:2: run.roundz: unknown key; did you mean rounds?\n"
            "a.toml:3: run.rounds: is the string \"many\", expected an integer from 1 to 100\n"
            "a.toml:5: training.rate: is the number 1.5, expected a number from 0 to 1\n"
            "a.toml:6: training.zzzzzzzzzz: unknown key; [training] has rate\n"
            "a.toml:7: tranning: unknown section; did you mean [training]?");
}

TEST(Reading, KeysInTheWrongPlaceAreSentHome) {
  EXPECT_EQ(mistakes_in("num_rounds = 3\nnobody = 1\n[run]\nname = \"a\"\nrate = 1\n"),
            "a.toml:1: num_rounds: stands in no section; it belongs in [run]\n"
            "a.toml:2: nobody: unknown key; there are run, training and data\n"
            "a.toml:5: run.rate: unknown key here; it belongs in [training]");
}

TEST(Reading, AnAliasBesideItsKeyIsAMistake) {
  EXPECT_EQ(
      mistakes_in("[run]\nname = \"a\"\nnum_rounds = 3\nrounds = 4\n"),
      "a.toml:4: run.rounds: is another name of run.rounds, which line 3 gives as run.num_rounds; keep one of them");
}

TEST(Reading, AMistakeNamesTheKeyAsTheFileSpellsIt) {
  EXPECT_EQ(mistakes_in("[run]\nname = \"a\"\nnum_rounds = 101\n"),
            "a.toml:3: run.num_rounds: is the integer 101, expected an integer from 1 to 100");
}

TEST(Reading, SyntaxMistakesCarryTheColumnAndHideNoOthers) {
  const std::string all = mistakes_in("[run]\nrounds = 5 5\nrate = 1\n");
  EXPECT_THAT(all, testing::HasSubstr("a.toml:2:12: syntax: "));
  EXPECT_THAT(all, testing::HasSubstr("a.toml:3: run.rate: unknown key here"));
  EXPECT_THAT(all, testing::Not(testing::HasSubstr("missing"))) << "it may have stood in the broken line";
}

TEST(Reading, AKeyGivenTwiceIsFoundWithItsLine) {
  const std::string all = mistakes_in("[run]\nname = \"a\"\nrounds = 5\nrounds = 6\n");
  EXPECT_THAT(all, testing::StartsWith("a.toml:4:10: syntax: in key-value pair: "));
  EXPECT_THAT(all, testing::HasSubstr("'rounds'"));
}

TEST(Reading, SectionsAreNoKeysAndKeysNoSections) {
  EXPECT_EQ(mistakes_in("run = 1\n"), "a.toml:1: run: is the integer 1, expected the section [run]");
  EXPECT_EQ(mistakes_in("[[run]]\nname = \"a\"\n"), "a.toml:1: run: is an array, expected the section [run]");
  EXPECT_EQ(mistakes_in("[run]\nname = \"a\"\n[run.rounds]\n"),
            "a.toml:3: run.rounds: is a table, expected an integer from 1 to 100");
}

TEST(Reading, NamedSectionsAreCheckedOneByOne) {
  EXPECT_EQ(mistakes_in("[run]\nname = \"a\"\n[data.x]\npth = \"p\"\n[data.Bad]\npath = \"p\"\n[data]\ny = 1\n"),
            "a.toml:3: data.x.path: is missing, expected a string\n"
            "a.toml:4: data.x.pth: unknown key; did you mean path?\n"
            "a.toml:5: data.\"Bad\": is no usable name, expected 1 to 64 of a-z, 0-9, \".\", \"_\" and \"-\", not "
            "beginning with \".\" or \"-\"\n"
            "a.toml:8: data.y: is the integer 1, expected a section [data.y]");
  EXPECT_EQ(mistakes_in("data = 1\n[run]\nname = \"a\"\n"),
            "a.toml:1: data: is the integer 1, expected sections [data.NAME]");
}

TEST(Reading, RequiredTextIsNotEmpty) {
  EXPECT_EQ(mistakes_in("[run]\nname = \"\"\n"), "a.toml:2: run.name: is empty, expected a string");
}

TEST(Reading, OwnChecksPointAtTheKeyOrItsSection) {
  Settings settings;
  Reading reading("\n[run]\nname = \"a\"\nnum_rounds = 200\n[data.b.c]\n", "a.toml");
  reading.bind(schema_of(settings));
  EXPECT_FALSE(reading.sound({"run.rounds"}));
  EXPECT_TRUE(reading.sound({"run.name", "training.rate"}));
  reading.mistake("run.name", "is a");
  reading.mistake("run.other", "is b");
  reading.mistake("training.rate", "is c");
  EXPECT_FALSE(reading.sound({"run.name", "training.rate"}));
  const std::string all = reading.status().error().message();
  EXPECT_THAT(
      all, testing::StartsWith("a.toml:1: training.rate: is c\na.toml:2: run.other: is b\na.toml:3: run.name: is a"));
}

TEST(Reading, PeeksOnlyAtStrings) {
  const Reading reading("[run]\nname = \"x\"\nrounds = 1\n", "a.toml");
  EXPECT_EQ(reading.peek("run", "name", "f"), "x");
  EXPECT_EQ(reading.peek("run", "rounds", "f"), "f");
  EXPECT_EQ(reading.peek("run", "none", "f"), "f");
  EXPECT_EQ(reading.peek("none", "name", "f"), "f");
}

}  // namespace
}  // namespace gleaner::config
