#include "tests/cli/cli_run.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <sstream>

#include "common/check.hpp"

namespace gleaner::cli {
namespace {

std::string read_all(int descriptor) {
  std::string all;
  std::array<char, 4096> buffer{};
  for (ssize_t size = 0; (size = ::read(descriptor, buffer.data(), buffer.size())) > 0;) {
    all.append(buffer.data(), static_cast<std::size_t>(size));
  }
  ::close(descriptor);
  return all;
}

}  // namespace

Ran run_cli(std::vector<std::string> args, const Terminal& terminal) {
  std::ostringstream out;
  std::ostringstream err;
  std::istringstream in(terminal.typed);
  Console console{out, err, in, terminal.is_terminal, terminal.is_terminal};
  const int code = run(std::move(args), console);
  return {code, out.str(), err.str()};
}

Ran run_program(const std::vector<std::string>& args) {
  std::array<int, 2> out{};
  GLEANER_CHECK(::pipe(out.data()) == 0);
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDERR_FILENO);
  posix_spawn_file_actions_addclose(&actions, out[0]);
  std::vector<std::string> all = {GLEANER_PROGRAM};
  all.insert(all.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& arg : all) argv.push_back(arg.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  GLEANER_CHECK(::posix_spawn(&child, GLEANER_PROGRAM, &actions, nullptr, argv.data(), environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  ::close(out[1]);
  Ran ran;
  ran.out = read_all(out[0]);
  int status = 0;
  GLEANER_CHECK(::waitpid(child, &status, 0) == child);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

InTemporaryFolder::~InTemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void InTemporaryFolder::write(const std::string& name, const std::string& text) const {
  std::ofstream(path(name), std::ios::binary) << text;
}

std::string InTemporaryFolder::read(const std::string& name) const {
  std::ostringstream text;
  text << std::ifstream(path(name), std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace gleaner::cli
