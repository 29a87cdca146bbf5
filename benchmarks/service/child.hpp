#pragma once
// A process beside this one: started, watched from outside, ended with it whatever happens.

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/clock.hpp"
#include "common/error.hpp"

namespace gleaner::bench {

struct Memory {  // of a process, from /proc
  std::uint64_t resident_bytes = 0;
  std::uint64_t peak_bytes = 0;  // since it began, or since reset_peak()
};

class Child {
 public:
  // args[0] is the program; an argument "{ready}" becomes a descriptor that the child writes one line to. Its output
  // goes to the log.
  static Result<Child> start(const std::vector<std::string>& args, const std::string& log);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();  // stop()

  // The line from the child, within the time. Errors quote the end of its log.
  Result<std::string> ready_line(Duration timeout) const;
  Result<Memory> memory() const;
  Status reset_peak() const;
  const std::string& log() const { return log_; }
  Result<int> stop();  // SIGTERM, after a grace SIGKILL; the exit code, or -1 after a signal

 private:
  Child(pid_t pid, int ready, std::string log) : pid_(pid), ready_(ready), log_(std::move(log)) {}
  Error with_log(const std::string& what) const;

  pid_t pid_ = 0;
  int ready_ = -1;
  std::string log_;
};

// The folder of this executable, where the other programs of the build lie.
std::string programs_folder();
std::string own_program();

}  // namespace gleaner::bench
