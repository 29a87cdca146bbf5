#include "cli/new_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace gleaner::cli {
namespace {

constexpr mode_t kMode = 0644;

Error exists(const std::string& path) {
  return {ErrorCode::conflict, fmt::format("{}: there is such a file already; name another, or add --force", path)};
}

}  // namespace

Error NewFile::failed(const char* what) const {
  const int number = errno;
  const ErrorCode code = number == ENOSPC ? ErrorCode::no_space : ErrorCode::bad_input;
  return {code, fmt::format("{}: {}: {}", path_, what, std::strerror(number))};
}

Result<NewFile> NewFile::create(const std::string& path, Existing existing) {
  struct stat status{};
  if (existing == Existing::keep && ::lstat(path.c_str(), &status) == 0) return fail(exists(path));
  // A rename would put the file in the place of whatever has the name: /dev/null, or what a symbolic link stands for.
  if (::lstat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    return fail(ErrorCode::conflict, fmt::format("{}: is no plain file, and stays; name another", path));
  }
  NewFile file(path, existing);
  file.partial_ = fmt::format("{}.partial-{}", path, ::getpid());
  file.descriptor_ = ::open(file.partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
  if (file.descriptor_ < 0) {
    file.partial_.clear();
    return fail(file.failed("cannot be written"));
  }
  return file;
}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      existing_(other.existing_),
      partial_(std::exchange(other.partial_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

NewFile::~NewFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!partial_.empty()) ::unlink(partial_.c_str());
}

Status NewFile::write(ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail(failed("cannot be written"));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Status NewFile::commit() {
  if (::fsync(descriptor_) != 0) return fail(failed("cannot be forced to disk"));
  if (existing_ == Existing::replace) {
    if (::rename(partial_.c_str(), path_.c_str()) != 0) return fail(failed("cannot be named"));
    partial_.clear();
    return {};
  }
  // A link, unlike a rename, never replaces a file that came to be meanwhile.
  if (::link(partial_.c_str(), path_.c_str()) != 0) {
    return fail(errno == EEXIST ? exists(path_) : failed("cannot be named"));
  }
  return {};
}

}  // namespace gleaner::cli
