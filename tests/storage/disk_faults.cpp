#include "tests/storage/disk_faults.hpp"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>

namespace gleaner::test {
namespace {

struct Fault {
  DiskCall call;
  std::string path_end;
  int system_error = 0;
  int hits = 0;
};
std::optional<Fault> fault;

bool fails(DiskCall call, int descriptor) {
  if (!fault || fault->call != call) return false;
  std::array<char, 4096> path{};
  const ssize_t size = ::readlink(fmt::format("/proc/self/fd/{}", descriptor).c_str(), path.data(), path.size());
  if (size < 0 || !std::string_view(path.data(), static_cast<std::size_t>(size)).ends_with(fault->path_end)) {
    return false;
  }
  ++fault->hits;
  errno = fault->system_error;
  return true;
}

ssize_t write_at(int descriptor, const void* bytes, std::size_t size, off_t at) {
  if (fails(DiskCall::write, descriptor)) return -1;
  return ::syscall(SYS_pwrite64, descriptor, bytes, size, at);
}

int call(DiskCall kind, long number, int descriptor, off_t argument = 0) {
  if (fails(kind, descriptor)) return -1;
  return static_cast<int>(::syscall(number, descriptor, argument));
}

}  // namespace

DiskFault::DiskFault(DiskCall call, std::string path_end, int system_error) {
  fault = Fault{call, std::move(path_end), system_error};
}
DiskFault::~DiskFault() { fault.reset(); }
int DiskFault::hits() const { return fault->hits; }

}  // namespace gleaner::test

namespace disk = gleaner::test;

extern "C" {
#define GLEANER_CALL __attribute__((visibility("default")))
GLEANER_CALL ssize_t pwrite(int descriptor, const void* bytes, size_t size, off_t at) {
  return disk::write_at(descriptor, bytes, size, at);
}
GLEANER_CALL ssize_t pwrite64(int descriptor, const void* bytes, size_t size, off64_t at) {
  return disk::write_at(descriptor, bytes, size, at);
}
GLEANER_CALL int ftruncate(int descriptor, off_t size) noexcept {
  return disk::call(disk::DiskCall::truncate, SYS_ftruncate, descriptor, size);
}
GLEANER_CALL int ftruncate64(int descriptor, off64_t size) noexcept {
  return disk::call(disk::DiskCall::truncate, SYS_ftruncate, descriptor, size);
}
GLEANER_CALL int fsync(int descriptor) { return disk::call(disk::DiskCall::flush, SYS_fsync, descriptor); }
GLEANER_CALL int fdatasync(int descriptor) { return disk::call(disk::DiskCall::flush, SYS_fdatasync, descriptor); }
#undef GLEANER_CALL
}
