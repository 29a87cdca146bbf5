#include "storage/lock_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "common/text.hpp"
#include "storage/sqlite.hpp"

namespace gleaner {
namespace {

constexpr std::size_t kTextBytesMax = 256;

struct Contents {
  std::string pid;
  std::vector<std::uint64_t> tokens;
};

// "pid 123" and "tokens 0123456789abcdef fedcba9876543210", a line each; what is not that says nothing.
Contents parse(const std::string& text) {
  Contents contents;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "pid") {
      words >> contents.pid;
    } else if (word == "tokens") {
      while (words >> word) {
        std::uint64_t token = 0;
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), token, 16);
        if (error == std::errc() && end == word.data() + word.size()) contents.tokens.push_back(token);
      }
    }
  }
  return contents;
}

std::string read_text(int descriptor) {
  std::array<char, kTextBytesMax> buffer{};
  const ssize_t size = ::pread(descriptor, buffer.data(), buffer.size(), 0);
  return {buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
}

// Whether the name still means the open file: who locks a file that was removed meanwhile has locked nothing.
bool is_named(int descriptor, const std::string& path) {
  struct stat open{};
  struct stat named{};
  return ::fstat(descriptor, &open) == 0 && ::stat(path.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

}  // namespace

// What is no database gets no lock file beside it. Nothing, or an empty file, becomes one.
Status check_is_database(const std::string& path) {
  constexpr std::string_view kHeader("SQLite format 3\0", 16);
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return {};
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorCode::bad_input, fmt::format("{}: is no plain file; name another for the database", path));
  }
  if (status.st_size == 0) return {};
  std::array<char, 16> start{};
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::bad_input, fmt::format("{}: cannot be read ({})", path, std::strerror(errno)));
  file.read(start.data(), start.size());
  if (std::string_view(start.data(), start.size()) == kHeader) return {};
  return fail(ErrorCode::corrupt, fmt::format("{}: is not a database; restore a backup or name another file", path));
}

Result<LockFile> LockFile::acquire(const std::string& database_path) {
  GLEANER_TRY(check_is_database(database_path));
  const std::string path = database_path + ".lock";
  int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  const bool made = descriptor >= 0;
  if (!made && errno == EEXIST) descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    if (errno == ENOENT) {
      return fail(ErrorCode::bad_input, fmt::format("{}: its folder does not exist; make it first", database_path));
    }
    if (errno == EROFS || errno == EACCES) {
      return fail(
          ErrorCode::bad_input,
          fmt::format("{}: cannot be written ({}): serve a database on a disk and in a folder that may be written",
                      path, std::strerror(errno)));
    }
    return fail(system_failure(errno, path, "cannot be opened"));
  }
  LockFile lock(path, descriptor);
  struct flock request{};
  request.l_type = F_WRLCK;
  request.l_whence = SEEK_SET;
  if (::fcntl(descriptor, F_OFD_SETLK, &request) != 0) {
    if (errno != EAGAIN && errno != EACCES) return fail(system_failure(errno, path, "cannot be locked"));
    const std::string pid = parse(read_text(descriptor)).pid;
    return fail(ErrorCode::conflict,
                fmt::format("{}: served by process {} already; stop that one or serve another file", database_path,
                            pid.empty() ? "(unknown)" : pid));
  }
  if (!is_named(descriptor, path)) {
    return fail(ErrorCode::conflict, fmt::format("{}: was removed or replaced meanwhile; start again", path));
  }
  lock.made_ = made;
  GLEANER_TRY(lock.lock_database(database_path));
  lock.tokens_ = parse(read_text(descriptor)).tokens;
  GLEANER_TRY(lock.write());
  GLEANER_TRY(sync_folder_of(path));
  return lock;
}

LockFile::LockFile(LockFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      made_(std::exchange(other.made_, false)),
      database_(std::exchange(other.database_, -1)),
      tokens_(std::move(other.tokens_)) {}

LockFile::~LockFile() {
  if (made_) ::unlink(path_.c_str());
  if (database_ >= 0) ::close(database_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status LockFile::lock_database(const std::string& database_path) {
  database_ = ::open(database_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  // SQLite says better what it may not do with a file.
  if (database_ < 0 && (errno == EACCES || errno == EROFS || errno == EPERM)) {
    database_ = ::open(database_path.c_str(), O_RDONLY | O_CLOEXEC);
  }
  if (database_ < 0) return fail(system_failure(errno, database_path, "cannot be opened"));
  if (::flock(database_, LOCK_EX | LOCK_NB) == 0) return {};
  if (errno != EWOULDBLOCK) return fail(system_failure(errno, database_path, "cannot be locked"));
  return fail(ErrorCode::conflict,
              fmt::format("{}: served by another process already, under another name of the file or with its lock file "
                          "removed; stop that one or serve another file",
                          database_path));
}

Status LockFile::set_tokens(std::vector<std::uint64_t> tokens) {
  tokens_ = std::move(tokens);
  return write();
}

// Tokens first and in one write: a crash must not leave a file without the token that the database has.
Status LockFile::write() const {
  std::string text = "tokens";
  for (const std::uint64_t token : tokens_) text += " " + to_hex(token);
  text += fmt::format("\npid {}\n", ::getpid());
  const auto size = static_cast<ssize_t>(text.size());
  const ssize_t written = ::pwrite(descriptor_, text.data(), text.size(), 0);
  if (written >= 0 && written < size) return fail(system_failure(ENOSPC, path_, "cannot be written"));
  if (written < 0 || ::ftruncate(descriptor_, size) != 0 || ::fsync(descriptor_) != 0) {
    return fail(system_failure(errno, path_, "cannot be written"));
  }
  return {};
}

}  // namespace gleaner
