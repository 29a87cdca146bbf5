#include <unistd.h>

#include <csignal>
#include <iostream>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "common/log.hpp"

int main(int argc, char** argv) {
  // A reader that goes away, like `| head`, is seen as a stream that fails.
  std::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c)
  gleaner::start_logging({.level = gleaner::LogLevel::warn, .file = "", .program = "gleaner"});
  gleaner::cli::Console console{std::cout, std::cerr, std::cin, isatty(STDERR_FILENO) != 0, isatty(STDIN_FILENO) != 0};
  return gleaner::cli::run(std::vector<std::string>(argv + 1, argv + argc), console);
}
