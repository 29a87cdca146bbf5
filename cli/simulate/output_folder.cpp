#include "cli/simulate/output_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace gleaner::cli {

namespace fs = std::filesystem;

Result<OutputFolder> OutputFolder::make(const std::string& path) {
  std::error_code ec;
  fs::create_directories(path + "/state", ec);
  if (ec) return fail(ErrorCode::bad_input, fmt::format("cannot make {}: {}", path, ec.message()));
  return hold(path);
}

Result<OutputFolder> OutputFolder::reopen(const std::string& path) {
  std::error_code ec;
  if (!fs::is_directory(path + "/state", ec)) {
    return fail(ErrorCode::not_found,
                fmt::format("{}: there is no checkpoint to go on from; begin anew without --resume", path));
  }
  return hold(path);
}

Result<OutputFolder> OutputFolder::hold(const std::string& path) {
  const std::string lock_path = path + "/lock";
  OutputFolder folder(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (folder.lock_.get() < 0)
    return fail(ErrorCode::bad_input, fmt::format("cannot open {}: {}", lock_path, std::strerror(errno)));
  if (::flock(folder.lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail(ErrorCode::conflict,
                fmt::format("{}: another `gleaner simulate` is at work there (it holds {}): wait for it or stop it, or "
                            "name another folder with --output",
                            path, lock_path));
  }
  return folder;
}

}  // namespace gleaner::cli
