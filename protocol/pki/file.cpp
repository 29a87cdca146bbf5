#include "protocol/pki/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace gleaner::pki {
namespace {

Error exists(const std::string& path) {
  return {ErrorCode::conflict, fmt::format("{}: exists already and is not overwritten; choose another name or move it "
                                           "away",
                                           path)};
}

std::unexpected<Error> system_error(const std::string& path, std::string_view doing) {
  const int error = errno;
  return fail(error == ENOSPC ? ErrorCode::no_space : ErrorCode::bad_input,
              fmt::format("{}: {} failed: {}", path, doing, std::strerror(error)));
}

bool write_all(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(file, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::fsync(file) == 0;
}

}  // namespace

Status refuse_existing(const std::string& path) {
  if (::access(path.c_str(), F_OK) == 0) return fail(exists(path));
  return {};
}

Status write_new_file(const std::string& path, std::string_view content, FileMode mode) {
  const std::string temporary = fmt::format("{}.new.{}", path, ::getpid());
  const mode_t bits = mode == FileMode::secret ? S_IRUSR | S_IWUSR : S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH;
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, bits);
  if (file < 0) return system_error(temporary, "creating it");
  const bool written = write_all(file, content);
  const int write_error = errno;
  ::close(file);
  if (!written) {
    ::unlink(temporary.c_str());
    errno = write_error;
    return system_error(temporary, "writing it");
  }
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) != 0) {
    const int rename_error = errno;
    ::unlink(temporary.c_str());
    if (rename_error == EEXIST) return fail(exists(path));
    errno = rename_error;
    return system_error(path, "naming it");
  }
  return {};
}

void remove_file(const std::string& path) { ::unlink(path.c_str()); }

}  // namespace gleaner::pki
