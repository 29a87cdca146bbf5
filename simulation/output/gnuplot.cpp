#include "simulation/output/gnuplot.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "common/descriptor.hpp"

namespace gleaner::simulation {
namespace {

std::unexpected<Error> system_failure(std::string_view what, int error) {
  return fail(ErrorCode::fatal, fmt::format("gnuplot: {}: {}", what, std::strerror(error)));
}

// Without SIGPIPE when the other side ended early: its exit status then says why.
void send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

// The first line with something in it of what the program wrote.
std::string first_line(int file) {
  std::array<char, 2048> buffer{};
  const ssize_t size = ::pread(file, buffer.data(), buffer.size(), 0);
  std::string_view text(buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  const auto begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  text.remove_prefix(begin);
  return std::string(text.substr(0, text.find('\n')));
}

Result<pid_t> spawn(int input, int output) {
  posix_spawn_file_actions_t actions;
  if (const int error = ::posix_spawn_file_actions_init(&actions); error != 0) return system_failure("spawn", error);
  ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  std::string name = "gnuplot";
  std::string script = "-";
  const std::array<char*, 3> arguments = {name.data(), script.data(), nullptr};
  pid_t child = -1;
  const int error = ::posix_spawnp(&child, name.c_str(), &actions, nullptr, arguments.data(), ::environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) {
    return fail(
        ErrorCode::not_found,
        "there is no gnuplot on PATH, which draws the curves: install it (Debian: gnuplot-nox), or draw them from "
        "rounds.csv");
  }
  if (error != 0) return system_failure("cannot be started", error);
  return child;
}

}  // namespace

Status run_gnuplot(std::string_view script) {
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0)
    return system_failure("socketpair", errno);
  Descriptor ours(pair[0]);
  Descriptor theirs(pair[1]);
  Descriptor said(::memfd_create("gnuplot", MFD_CLOEXEC));
  if (said.get() < 0) return system_failure("memfd_create", errno);
  GLEANER_ASSIGN(const pid_t child, spawn(theirs.get(), said.get()));
  theirs.close();
  send_all(ours.get(), script);
  ours.close();
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return system_failure("waitpid", errno);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  const std::string line = first_line(said.get());
  const std::string how =
      WIFEXITED(status) ? fmt::format("exit code {}", WEXITSTATUS(status)) : fmt::format("signal {}", WTERMSIG(status));
  return fail(ErrorCode::fatal, fmt::format("gnuplot ended with {}{}", how, line.empty() ? "" : ": " + line));
}

}  // namespace gleaner::simulation
