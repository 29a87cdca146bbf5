#pragma once
// A disk that fails on request: while one is alive, one kind of system call on files whose path ends so fails. The
// test's own definitions of these calls stand before those of the C library, for SQLite as well.

#include <string>

namespace gleaner::test {

enum class DiskCall { write, truncate, flush };

class DiskFault {
 public:
  DiskFault(DiskCall call, std::string path_end, int system_error);
  DiskFault(const DiskFault&) = delete;
  DiskFault& operator=(const DiskFault&) = delete;
  ~DiskFault();
  int hits() const;
};

}  // namespace gleaner::test
