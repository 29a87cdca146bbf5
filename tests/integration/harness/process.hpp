#pragma once
// A child process of a test: it ends with the test, whatever happens to either. One thread, the test's own.

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gleaner::testing {

struct Launch {
  std::string program;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  // added to the test's own
  std::string log;                                 // file that both outputs are appended to
  bool tells_ready = false;                        // the program gets --ready-fd and writes a line there
};

struct Ended {
  int exit_code = -1;  // -1: ended by a signal
  int signal = 0;
  friend bool operator==(const Ended&, const Ended&) = default;
};
inline constexpr Ended kKilled{.exit_code = -1, .signal = 9};
std::ostream& operator<<(std::ostream& out, const Ended& ended);

class Process {
 public:
  explicit Process(const Launch& launch);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();  // kills and waits

  pid_t pid() const { return pid_; }
  bool running() { return !wait(std::chrono::milliseconds(0)); }
  void signal(int number);
  // How it ended; nothing when it still runs after that long.
  std::optional<Ended> wait(std::chrono::milliseconds patience);
  // Kills it and waits.
  void kill();
  // The line that it wrote to its ready descriptor; "" when it ended or took longer.
  std::string ready_line(std::chrono::milliseconds patience);

 private:
  pid_t pid_ = -1;
  int pid_descriptor_ = -1;
  int ready_ = -1;
  std::optional<Ended> ended_;
};

}  // namespace gleaner::testing
