#include "tests/config/reference.hpp"

#include "client/config.hpp"
#include "coordinator/config.hpp"
#include "coordinator/run_settings.hpp"

namespace gleaner {

std::string configuration_reference() {
  return std::string(R"(# Configuration

There are three kinds of files, all of them TOML: the coordinator's, a device's, and one for each run. `examples/` has
one of each with comments. All mistakes in a file are reported at once, each with its line, what was expected and the
nearest known key; a program then ends with exit code 2.

Relative paths are relative to the folder of the file that they stand in. Durations are written `"30s"`, `"1500ms"`,
`"5m"`, `"2h"` or `"1d"`; sizes `"64MiB"`, `"2GB"` or plain bytes; endpoints `"host:port"`, IPv6 addresses in brackets:
`"[::1]:7433"`. Names after a comma in the first column are other spellings of the same key.

This page is printed by the program `config_reference` from the tables that the files are read with.

## The coordinator's file

`gleaner-coordinator serve --config FILE`

)") + coordinator_config_reference() +
         "## A device's file\n\n`gleaner-client run --config FILE`\n\n" + client_config_reference() +
         "## A run's file\n\n`gleaner run start FILE`\n\n" + run_settings_reference();
}

}  // namespace gleaner
