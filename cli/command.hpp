#pragma once
// What every command of `gleaner` shares: the options that all take, where it prints, how it fails, the exit codes.
// Commands are rows of a table (commands.cpp), one file a group.

#include <CLI/CLI.hpp>
#include <functional>
#include <istream>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "coordinator/admin/client.hpp"

namespace gleaner::cli {

enum ExitCode : int {
  kOk = 0,
  kFailure = 1,      // it was tried and did not work, or a check found a fault
  kUsage = 2,        // the command line or a file is wrong
  kUnreachable = 3,  // no coordinator answers
  kConflict = 4,     // there is no such thing, or it is in a state that forbids it
};

int exit_code_of(ErrorCode code);

struct Console {
  std::ostream& out;
  std::ostream& err;
  std::istream& in;
  bool err_is_terminal = false;  // then progress is drawn in place
  bool in_is_terminal = false;   // then questions are asked
};

struct CommonOptions {
  bool json = false;   // print what the coordinator sent, and errors as {"code", "message"}
  std::string socket;  // of the coordinator
  std::string config;  // the coordinator's file, which names the socket
  std::string remote;  // HOST:PORT of a coordinator's admin.tls, instead of a socket
  std::string ca, certificate, key;
};

// What a command line asks for; CLI11's callbacks set the action, which then runs outside of them.
struct Invocation {
  CommonOptions common;
  std::function<int(Console&)> action;
};

struct CommandGroup {
  std::string_view name;  // of the command that it adds
  void (*add)(CLI::App& root, Invocation& invocation);
};
std::span<const CommandGroup> command_groups();

// args without the program's name. Returns the exit code; throws nothing but std::bad_alloc.
int run(std::vector<std::string> args, Console& console);

// Says what went wrong, in one line, and returns the exit code.
int report(Console& console, const CommonOptions& common, const Error& error);
int report(Console& console, const CommonOptions& common, const Error& error, ExitCode code);

// The socket that the options name: --socket, or what --config says, or gleaner.sock in this folder.
Result<std::string> find_socket(const CommonOptions& common);

// Connects to the socket or the remote coordinator, and reports whatever fails.
int with_coordinator(Console& console, const CommonOptions& common, const std::function<Status(AdminClient&)>& use);

// An absolute path, for a coordinator that runs in another folder.
std::string absolute(const std::string& path);

}  // namespace gleaner::cli
