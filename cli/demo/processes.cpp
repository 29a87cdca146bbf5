#include "cli/demo/processes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>

namespace gleaner::cli {
namespace {

std::string last_lines(const std::string& path, std::size_t count) {
  std::ifstream file(path);
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
    if (lines.size() > count) lines.pop_front();
  }
  std::string text;
  for (const auto& line : lines) text += "\n  " + line;
  return text;
}

void wait_a_little() { ::poll(nullptr, 0, 20); }

}  // namespace

Processes::~Processes() { stop(std::chrono::seconds(3)); }

Status Processes::start(const std::string& name, const std::string& program, const std::vector<std::string>& args,
                        const std::string& log, int inherited_fd) {
  std::error_code ec;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", ec);
  const std::string file = (own.parent_path() / program).string();
  if (ec || ::access(file.c_str(), X_OK) != 0) {
    return fail(ErrorCode::not_found,
                fmt::format("{} is not beside this program: build it (scripts/build release)", file));
  }
  std::vector<std::string> words = {file};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (out < 0) return fail(ErrorCode::fatal, fmt::format("cannot write {}: {}", log, std::strerror(errno)));
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    // Dies with the demonstration, also when that is killed.
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);
    ::setpgid(0, 0);
    if (inherited_fd >= 0) ::fcntl(inherited_fd, F_SETFD, 0);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(out, STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(out);
  if (pid < 0) return fail(ErrorCode::fatal, fmt::format("cannot start {}: {}", name, std::strerror(errno)));
  children_.push_back({name, log, pid});
  return {};
}

std::optional<Error> Processes::ended_early() {
  for (auto& child : children_) {
    int status = 0;
    if (child.pid == 0 || ::waitpid(child.pid, &status, WNOHANG) != child.pid) continue;
    child.pid = 0;
    const std::string how = WIFEXITED(status) ? fmt::format("exit code {}", WEXITSTATUS(status))
                                              : fmt::format("signal {}", WTERMSIG(status));
    return Error(ErrorCode::fatal,
                 fmt::format("{} ended ({}); the end of {}:{}", child.name, how, child.log, last_lines(child.log, 5)));
  }
  return std::nullopt;
}

void Processes::stop(Duration grace) {
  for (const auto& child : children_) {
    if (child.pid != 0) ::kill(child.pid, SIGTERM);
  }
  const Instant until = system_clock().now() + grace;
  for (auto& child : children_) {
    while (child.pid != 0 && ::waitpid(child.pid, nullptr, WNOHANG) == 0) {
      if (system_clock().now() > until) {
        ::kill(child.pid, SIGKILL);
        ::waitpid(child.pid, nullptr, 0);
        break;
      }
      wait_a_little();
    }
    child.pid = 0;
  }
  children_.clear();
}

Result<std::string> read_line(int fd, Duration timeout) {
  std::string line;
  const Instant until = system_clock().now() + timeout;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - system_clock().now()).count();
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    if (left <= 0 || ::poll(&waiting, 1, static_cast<int>(left)) == 0)
      return fail(ErrorCode::retry, "nothing came in time");
    std::array<char, 256> buffer{};
    const auto got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return fail(ErrorCode::retry, "it ended before it was ready");
    line.append(buffer.data(), static_cast<std::size_t>(got));
    if (const auto end = line.find('\n'); end != std::string::npos) return line.substr(0, end);
  }
}

}  // namespace gleaner::cli
