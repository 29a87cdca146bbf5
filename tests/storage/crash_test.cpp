// A writer is killed at random moments; whatever it reported must be there, whole, and as it was written.
// GLEANER_CRASHES sets how often (30).
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <sstream>

#include "common/random.hpp"
#include "tests/storage/support.hpp"

namespace gleaner::test {
namespace {

struct Reported {
  std::uint32_t version = 0;
  std::uint32_t snapshot = 0;
  std::uint32_t lines = 0;
  bool was_killed = false;
};

void note(const std::string& text, Reported& reported) {
  std::istringstream lines(text.substr(0, text.rfind('\n') + 1));
  std::string what;
  std::uint32_t version = 0;
  while (lines >> what >> version) {
    (what == "commit" ? reported.version : reported.snapshot) = version;
    ++reported.lines;
  }
}

// Runs the writer for about so long after its first report, kills it, and reads all that it said.
Reported write_and_kill(const std::string& path, std::uint64_t seed, std::chrono::microseconds lifetime) {
  std::array<int, 2> pipe_ends{};
  EXPECT_EQ(::pipe2(pipe_ends.data(), O_CLOEXEC), 0);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, pipe_ends[1], STDOUT_FILENO);
  std::string program = GLEANER_CRASH_WRITER;
  std::string path_argument = path;
  std::string seed_argument = fmt::format("{}", seed);
  std::array<char*, 4> arguments = {program.data(), path_argument.data(), seed_argument.data(), nullptr};
  pid_t pid = 0;
  EXPECT_EQ(::posix_spawn(&pid, program.c_str(), &files, nullptr, arguments.data(), environ), 0);
  posix_spawn_file_actions_destroy(&files);
  ::close(pipe_ends[1]);

  std::string text;
  std::array<char, 4096> buffer{};
  auto deadline = std::chrono::steady_clock::time_point::max();
  bool killed = false;
  for (;;) {
    pollfd ready{.fd = pipe_ends[0], .events = POLLIN, .revents = 0};
    const auto left = deadline - std::chrono::steady_clock::now();
    const auto left_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    const timespec wait{.tv_sec = 0, .tv_nsec = std::max<std::int64_t>(0, left_ns)};
    const bool waits_for_ever = killed || text.empty();
    if (::ppoll(&ready, 1, waits_for_ever ? nullptr : &wait, nullptr) == 0) {
      ::kill(pid, SIGKILL);
      killed = true;
      continue;
    }
    const ssize_t size = ::read(pipe_ends[0], buffer.data(), buffer.size());
    if (size <= 0) break;
    if (text.empty()) deadline = std::chrono::steady_clock::now() + lifetime;
    text.append(buffer.data(), static_cast<std::size_t>(size));
  }
  ::close(pipe_ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  Reported reported;
  reported.was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  note(text, reported);
  return reported;
}

TEST(Crash, a_killed_writer_loses_nothing_that_it_reported) {
  const Folder folder;
  const std::string path = folder / "a.db";
  const char* wanted = std::getenv("GLEANER_CRASHES");
  const int crashes = wanted != nullptr ? std::atoi(wanted) : 30;
  Random random(2'026, Purpose::test);
  std::uint32_t newest_version = 0;
  std::uint32_t newest_snapshot = 0;
  for (int crash = 0; crash < crashes; ++crash) {
    const std::chrono::microseconds lifetime(random.below(120'000));
    const Reported reported = write_and_kill(path, static_cast<std::uint64_t>(crash), lifetime);
    ASSERT_TRUE(reported.was_killed) << "the writer ended by itself, crash " << crash;
    ASSERT_GE(reported.lines, 1U);
    newest_version = std::max(newest_version, reported.version);
    newest_snapshot = std::max(newest_snapshot, reported.snapshot);

    const auto opened = Database::open(path, Database::Access::serve);
    ASSERT_TRUE(opened) << opened.error().message();
    Database& database = **opened;
    const Status checked = database.check();
    ASSERT_TRUE(checked) << "crash " << crash << ": " << checked.error().message();
    ASSERT_EQ(compare_with_functions(database, kRun, newest_version), "") << "crash " << crash;
    const auto snapshot = *database.newest_snapshot(kRun);
    ASSERT_GE(snapshot ? snapshot->version.value : 0, newest_snapshot) << "crash " << crash;
    for (std::uint32_t plan = 1; plan <= newest_version; ++plan) {
      const auto outcome = *database.outcome_of(kRun, {plan});
      ASSERT_TRUE(outcome && outcome->outcome == Outcome::included) << "plan " << plan << ", crash " << crash;
    }
    ASSERT_EQ(database.run(kRun)->lineage, run_row().lineage) << "a crash is no swap";
  }
  EXPECT_GE(newest_version, static_cast<std::uint32_t>(crashes));
}

}  // namespace
}  // namespace gleaner::test
