#pragma once
// What adds each group's commands to the command line; for commands.cpp.

#include "cli/command.hpp"

namespace gleaner::cli {

void add_demo_command(CLI::App& root, Invocation& invocation);
void add_run_commands(CLI::App& root, Invocation& invocation);
void add_device_commands(CLI::App& root, Invocation& invocation);
void add_database_commands(CLI::App& root, Invocation& invocation);
void add_pki_commands(CLI::App& root, Invocation& invocation);
void add_audit_command(CLI::App& root, Invocation& invocation);
void add_doctor_command(CLI::App& root, Invocation& invocation);
void add_simulate_command(CLI::App& root, Invocation& invocation);

}  // namespace gleaner::cli
