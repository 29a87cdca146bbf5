#include "tests/integration/harness/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <ostream>

#include "common/check.hpp"

namespace gleaner::testing {
namespace {

constexpr int kReadyDescriptor = 3;

std::vector<std::string> environment_of(const Launch& launch) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!launch.environment.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  for (const auto& [name, value] : launch.environment) {
    all.push_back(name);
    all.back() += "=" + value;
  }
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

// Between fork and exec: system calls only.
[[noreturn]] void become(const std::string& program, char** arguments, char** environment, int log, int ready) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  if (ready == kReadyDescriptor) {
    ::fcntl(ready, F_SETFD, 0);
  } else if (ready >= 0) {
    ::dup2(ready, kReadyDescriptor);
  }
  ::execve(program.c_str(), arguments, environment);
  ::_exit(127);
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Ended& ended) {
  if (ended.signal != 0) return out << "ended by signal " << ended.signal;
  return out << "exit code " << ended.exit_code;
}

Process::Process(const Launch& launch) {
  const int log = ::open(launch.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  GLEANER_CHECK(log >= 0);
  std::array<int, 2> ready{-1, -1};
  std::vector<std::string> words{launch.program};
  words.insert(words.end(), launch.arguments.begin(), launch.arguments.end());
  if (launch.tells_ready) {
    GLEANER_CHECK(::pipe2(ready.data(), O_CLOEXEC) == 0);
    words.insert(words.end(), {"--ready-fd", std::to_string(kReadyDescriptor)});
  }
  std::vector<std::string> settings = environment_of(launch);
  const std::vector<char*> arguments = pointers(words);
  const std::vector<char*> environment = pointers(settings);
  pid_ = ::fork();
  GLEANER_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    become(launch.program, const_cast<char**>(arguments.data()), const_cast<char**>(environment.data()), log, ready[1]);
  }
  ::close(log);
  if (ready[1] >= 0) ::close(ready[1]);
  ready_ = ready[0];
  pid_descriptor_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  GLEANER_CHECK(pid_descriptor_ >= 0);
}

Process::~Process() {
  kill();
  ::close(pid_descriptor_);
  if (ready_ >= 0) ::close(ready_);
}

void Process::signal(int number) {
  if (!ended_) ::kill(pid_, number);
}

std::optional<Ended> Process::wait(std::chrono::milliseconds patience) {
  if (ended_) return ended_;
  pollfd gone{.fd = pid_descriptor_, .events = POLLIN, .revents = 0};
  if (::poll(&gone, 1, static_cast<int>(patience.count())) <= 0) return std::nullopt;
  int status = 0;
  GLEANER_CHECK(::waitpid(pid_, &status, 0) == pid_);
  ended_ = WIFSIGNALED(status) ? Ended{.exit_code = -1, .signal = WTERMSIG(status)}
                               : Ended{.exit_code = WEXITSTATUS(status), .signal = 0};
  return ended_;
}

void Process::kill() {
  signal(SIGKILL);
  wait(std::chrono::milliseconds(-1));
}

std::string Process::ready_line(std::chrono::milliseconds patience) {
  std::string line;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!line.ends_with('\n')) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd readable{.fd = ready_, .events = POLLIN, .revents = 0};
    std::array<char, 64> buffer{};
    if (left.count() <= 0 || ::poll(&readable, 1, static_cast<int>(left.count())) <= 0) return "";
    const auto size = ::read(ready_, buffer.data(), buffer.size());
    if (size <= 0) return "";
    line.append(buffer.data(), static_cast<std::size_t>(size));
  }
  line.pop_back();
  return line;
}

}  // namespace gleaner::testing
