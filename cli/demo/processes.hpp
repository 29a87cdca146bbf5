#pragma once
// Child processes of a demonstration: started beside this program, their output in files, ended with it whatever
// happens.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "common/clock.hpp"
#include "common/error.hpp"

namespace gleaner::cli {

class Processes {
 public:
  Processes() = default;
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;
  ~Processes();  // ends all

  // program: a file in the folder of this executable. inherited_fd stays open in the child (-1: none). Output goes to
  // log.
  Status start(const std::string& name, const std::string& program, const std::vector<std::string>& args,
               const std::string& log, int inherited_fd = -1);

  // The first child that has ended although nobody asked it to, with the last lines of its log.
  std::optional<Error> ended_early();

  // SIGTERM to all, SIGKILL to those that are still there after the grace; waits for them. Idempotent.
  void stop(Duration grace);

 private:
  struct Child {
    std::string name;
    std::string log;
    pid_t pid = 0;
  };
  std::vector<Child> children_;
};

// Reads one line from a descriptor within a time. retry when nothing comes.
Result<std::string> read_line(int fd, Duration timeout);

}  // namespace gleaner::cli
