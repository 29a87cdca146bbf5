#include "cli/doctor/machine.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/clock.hpp"
#include "common/text.hpp"
#include "kernels/kernels.hpp"
#include "storage/database.hpp"

namespace gleaner::cli {
namespace {

constexpr std::int64_t kNoEarlierThan = 1'735'689'600;  // 2025-01-01: before there was a Gleaner
constexpr std::uint64_t kFilesBesidesConnections = 64;
constexpr double kLittleSpaceBytes = 1e9;
constexpr double kNoSpaceBytes = 64e6;

// The folder itself when path is one, else the one that it will be made in.
std::string folder_of(const std::string& path) {
  if (std::filesystem::is_directory(path)) return path;
  const auto parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

// Open-file-description locks name no process, but the holder writes its pid into the file.
bool is_locked(const std::string& lock_file, std::string& pid) {
  const int descriptor = ::open(lock_file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  struct flock request{};
  request.l_type = F_WRLCK;
  request.l_whence = SEEK_SET;
  const bool known = ::fcntl(descriptor, F_OFD_GETLK, &request) == 0;
  ::close(descriptor);
  std::ifstream lines(lock_file);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.starts_with("pid ")) pid = line.substr(4);
  }
  return known && request.l_type != F_UNLCK;
}

}  // namespace

void check_clock(std::int64_t now_unix_s, Findings& findings) {
  const std::string now = to_iso8601(now_unix_s * 1000);
  if (now_unix_s < kNoEarlierThan) {
    return findings.fail(fmt::format("the clock says {}", now), "set it: certificates will not be valid yet");
  }
  timex state{};
  if (::adjtimex(&state) == TIME_ERROR && (static_cast<unsigned>(state.status) & STA_UNSYNC) != 0) {
    return findings.warn(fmt::format("the clock says {}, and nothing keeps it right", now),
                         "run a time service such as chrony or systemd-timesyncd (in a container: on the host)");
  }
  findings.ok(fmt::format("the clock says {}", now));
}

void check_backend(const std::string& name, Findings& findings) {
  const auto backend = parse_backend(name);
  if (!backend) return findings.fail(backend.error());
  const auto table = kernels_for(*backend);
  if (!table) return findings.fail(table.error());
  findings.ok(fmt::format("kernels run on {} (backend = \"{}\")", (*table)->name, name));
}

void check_open_files(std::uint32_t connections_max, Findings& findings) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const std::uint64_t needed = connections_max + kFilesBesidesConnections;
  const std::string text = fmt::format(
      "connections_max = {} needs {} open files; the limits are {} (soft) and {} "
      "(hard)",
      connections_max, needed, limit.rlim_cur, limit.rlim_max);
  if (limit.rlim_max < needed) {
    return findings.warn(text,
                         "raise the hard limit (LimitNOFILE= of the service, ulimit -Hn), or lower "
                         "connections_max");
  }
  findings.ok(text);
}

void check_space_for(const std::string& path, Findings& findings) {
  const std::string folder = folder_of(path);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    return findings.fail(fmt::format("{} cannot be written to: {}", folder, std::strerror(errno)),
                         "make the folder, and let the service's user write to it");
  }
  struct statvfs status{};
  if (::statvfs(folder.c_str(), &status) != 0) return;
  const double free_bytes = static_cast<double>(status.f_bavail) * static_cast<double>(status.f_frsize);
  const std::string text = fmt::format("{} has {} of free space", folder, human_bytes(free_bytes));
  if (free_bytes < kNoSpaceBytes) return findings.fail(text, "make room: nothing can be committed on a full disk");
  if (free_bytes < kLittleSpaceBytes) return findings.warn(text, "make room before it is full");
  findings.ok(text);
}

void check_database_file(const std::string& path, Findings& findings) {
  check_space_for(path, findings);
  if (!std::filesystem::exists(path)) return findings.ok(fmt::format("{} will be made at the first start", path));
  std::string pid;
  if (is_locked(path + ".lock", pid)) {
    findings.ok(fmt::format("{} is served by process {}", path, pid.empty() ? "(unknown)" : pid));
  } else {
    findings.ok(fmt::format("{} is served by nobody", path));
  }
  const auto database = Database::open(path, Database::Access::inspect);
  if (!database) return findings.fail(database.error());
  if (const Status sound = (*database)->check(); !sound) {
    return findings.fail(sound.error().message(),
                         "restore the newest backup: stop the coordinator and put it in place");
  }
  const auto runs = (*database)->runs();
  if (!runs) return findings.fail(runs.error());
  findings.ok(fmt::format("{} is sound; it holds {} runs", path, runs->size()));
}

}  // namespace gleaner::cli
