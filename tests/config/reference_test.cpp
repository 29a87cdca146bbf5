#include "config/reference.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/config/reference.hpp"

namespace gleaner::config {
namespace {

TEST(Reference, CommittedPageIsWhatTheTablesSay) {
  std::ifstream file(GLEANER_REFERENCE, std::ios::binary);
  ASSERT_TRUE(file) << GLEANER_REFERENCE;
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), configuration_reference()) << "run bin/config_reference > docs/configuration.md";
}

TEST(Reference, ShowsDefaultsAliasesAndRequiredKeys) {
  std::uint32_t rounds = 60;
  std::string path;
  std::string mode = "b";
  Schema schema;
  schema.sections = {
      {"run",
       "What it is.",
       {{.name = "rounds", .kind = integer(rounds, {1, 100}), .description = "How many.", .aliases = {"num_rounds"}},
        {.name = "path", .kind = text(path), .description = "a|b", .need = Need::required},
        {.name = "note", .kind = text(path), .description = "Optional."},
        {.name = "mode", .kind = one_of(mode, {"a", "b"}), .description = "M.", .default_note = "by x"}}}};
  schema.named = {{"data", "Free.", [&](const std::string&) {
                     return std::vector<Key>{{.name = "path", .kind = text(path), .description = "P."}};
                   }}};
  EXPECT_EQ(to_markdown(schema, "##"), R"(## [run]

What it is.

| key | value | default | meaning |
|---|---|---|---|
| `rounds`, `num_rounds` | an integer from 1 to 100 | `60` | How many. |
| `path` | a string | required | a\|b |
| `note` | a string | none | Optional. |
| `mode` | "a" or "b" | by x | M. |

## [data.NAME]

Free.

| key | value | default | meaning |
|---|---|---|---|
| `path` | a string | none | P. |

)");
}

}  // namespace
}  // namespace gleaner::config
