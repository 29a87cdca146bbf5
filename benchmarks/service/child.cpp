#include "benchmarks/service/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace gleaner::bench {
namespace {

constexpr std::size_t kLogTailBytes = 600;
constexpr int kStopGraceMs = 10'000;

std::unexpected<Error> system_failure(const std::string& what, int code) {
  return fail(ErrorCode::fatal, fmt::format("{}: {}", what, std::strerror(code)));
}

// Waits for the end of a child without asking the clock again and again.
bool ended_within(pid_t pid, int timeout_ms) {
  const auto watch = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (watch < 0) return false;
  pollfd event{.fd = watch, .events = POLLIN, .revents = 0};
  const bool ended = ::poll(&event, 1, timeout_ms) == 1;
  ::close(watch);
  return ended;
}

}  // namespace

Result<Child> Child::start(const std::vector<std::string>& args, const std::string& log) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return system_failure("cannot make a pipe", errno);
  const int inherited = ::fcntl(pipe[1], F_DUPFD, 3);  // without FD_CLOEXEC
  ::close(pipe[1]);
  std::vector<std::string> texts = args;
  std::vector<char*> pointers;
  for (std::string& text : texts) {
    if (text == "{ready}") text = std::to_string(inherited);
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = 0;
  const int code = ::posix_spawn(&pid, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(inherited);
  if (code != 0) {
    ::close(pipe[0]);
    return system_failure("cannot start " + args[0] + " (build it first)", code);
  }
  return Child(pid, pipe[0], log);
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), ready_(std::exchange(other.ready_, -1)), log_(std::move(other.log_)) {}

Child::~Child() {
  (void)stop();
  if (ready_ >= 0) ::close(ready_);
}

Error Child::with_log(const std::string& what) const {
  std::ifstream file(log_);
  std::stringstream text;
  text << file.rdbuf();
  std::string tail = std::move(text).str();
  if (tail.size() > kLogTailBytes) tail.erase(0, tail.size() - kLogTailBytes);
  return {ErrorCode::fatal, fmt::format("{}; its last words: {}", what, tail)};
}

Result<std::string> Child::ready_line(Duration timeout) const {
  std::string line;
  const Instant end = system_clock().now() + timeout;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - system_clock().now()).count();
    pollfd event{.fd = ready_, .events = POLLIN, .revents = 0};
    if (left <= 0 || ::poll(&event, 1, static_cast<int>(left)) != 1) return fail(with_log("a process is not ready"));
    char next = 0;
    if (::read(ready_, &next, 1) != 1) return fail(with_log("a process ended while it started"));
    if (next == '\n') return line;
    line.push_back(next);
  }
}

Result<Memory> Child::memory() const {
  std::ifstream status(fmt::format("/proc/{}/status", pid_));
  Memory memory;
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string key;
    std::uint64_t kib = 0;
    words >> key >> kib;
    if (key == "VmRSS:") memory.resident_bytes = kib * 1024;
    if (key == "VmHWM:") memory.peak_bytes = kib * 1024;
  }
  if (memory.resident_bytes == 0) return fail(with_log("a process has ended"));
  return memory;
}

Status Child::reset_peak() const {
  std::ofstream file(fmt::format("/proc/{}/clear_refs", pid_));
  file << "5" << std::flush;
  if (!file) return fail(ErrorCode::fatal, "this system does not let the peak of a process be reset (clear_refs)");
  return {};
}

Result<int> Child::stop() {
  if (pid_ == 0) return 0;
  ::kill(pid_, SIGTERM);
  if (!ended_within(pid_, kStopGraceMs)) ::kill(pid_, SIGKILL);
  int status = 0;
  if (::waitpid(std::exchange(pid_, 0), &status, 0) < 0) return system_failure("cannot wait for a process", errno);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }
std::string programs_folder() { return std::filesystem::path(own_program()).parent_path().string(); }

}  // namespace gleaner::bench
