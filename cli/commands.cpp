// The table of commands. A new one is a file with an add_...() and a row here.

#include "cli/commands.hpp"

#include <array>

namespace gleaner::cli {

std::span<const CommandGroup> command_groups() {
  static constexpr std::array kGroups = {
      CommandGroup{"demo", add_demo_command},       CommandGroup{"run", add_run_commands},
      CommandGroup{"devices", add_device_commands}, CommandGroup{"db", add_database_commands},
      CommandGroup{"pki", add_pki_commands},        CommandGroup{"audit", add_audit_command},
      CommandGroup{"doctor", add_doctor_command},   CommandGroup{"simulate", add_simulate_command},
  };
  return kGroups;
}

}  // namespace gleaner::cli
