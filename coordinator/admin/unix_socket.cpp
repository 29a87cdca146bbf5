#include "coordinator/admin/unix_socket.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace gleaner::admin {
namespace {

constexpr int kBacklog = 64;

std::string reason() { return std::strerror(errno); }

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return fail(ErrorCode::bad_input, fmt::format("the socket's path '{}' has {} bytes, expected 1 to {}: choose a "
                                                  "shorter one",
                                                  path, path.size(), sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

const sockaddr* generic(const sockaddr_un& address) { return reinterpret_cast<const sockaddr*>(&address); }

}  // namespace

Result<SocketState> probe_socket(const std::string& path) {
  GLEANER_ASSIGN(const sockaddr_un address, address_of(path));
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return SocketState::absent;
    return fail(ErrorCode::conflict, fmt::format("the socket {} cannot be looked at: {}", path, reason()));
  }
  if (!S_ISSOCK(status.st_mode)) {
    return fail(ErrorCode::bad_input, fmt::format("{} is no socket: move it away, or name another socket", path));
  }
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return fail(ErrorCode::fatal, fmt::format("no socket can be made: {}", reason()));
  const int outcome = ::connect(descriptor, generic(address), sizeof(address));
  const int error = outcome == 0 ? 0 : errno;
  ::close(descriptor);
  if (error == 0 || error == EAGAIN) return SocketState::answers;  // EAGAIN: it listens, with a full queue
  if (error == ECONNREFUSED) return SocketState::stale;
  if (error == ENOENT) return SocketState::absent;
  return fail(ErrorCode::conflict, fmt::format("the socket {} cannot be reached: {}", path, std::strerror(error)));
}

Result<UnixListener> UnixListener::listen(const std::string& path) {
  GLEANER_ASSIGN(const sockaddr_un address, address_of(path));
  GLEANER_ASSIGN(const SocketState state, probe_socket(path));
  if (state == SocketState::answers) {
    return fail(ErrorCode::conflict, fmt::format("somebody answers on the socket {} already: is another coordinator "
                                                 "running?",
                                                 path));
  }
  if (state == SocketState::stale && ::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return fail(ErrorCode::conflict, fmt::format("the stale socket {} cannot be removed: {}", path, reason()));
  }
  UnixListener listener("", ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // Linux gives the name the descriptor's mode, so that there is no moment in which others may connect.
  if (listener.descriptor_ < 0 || ::fchmod(listener.descriptor_, S_IRUSR | S_IWUSR) != 0) {
    return fail(ErrorCode::fatal, fmt::format("no socket can be made: {}", reason()));
  }
  if (::bind(listener.descriptor_, generic(address), sizeof(address)) != 0) {
    const ErrorCode code = errno == EADDRINUSE ? ErrorCode::conflict : ErrorCode::bad_input;
    return fail(code, fmt::format("the socket {} cannot be made: {}", path, reason()));
  }
  listener.path_ = path;
  struct stat status{};
  const bool there = ::chmod(path.c_str(), S_IRUSR | S_IWUSR) == 0 && ::lstat(path.c_str(), &status) == 0;
  if (!there || ::listen(listener.descriptor_, kBacklog) != 0) {
    return fail(ErrorCode::fatal, fmt::format("the socket {} cannot be listened on: {}", path, reason()));
  }
  listener.device_ = status.st_dev;
  listener.inode_ = status.st_ino;
  return listener;
}

UnixListener::UnixListener(UnixListener&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)),
      device_(other.device_),
      inode_(other.inode_) {}

UnixListener::~UnixListener() {
  if (descriptor_ >= 0) ::close(descriptor_);
  struct stat status{};
  if (path_.empty() || ::lstat(path_.c_str(), &status) != 0) return;
  if (status.st_dev == device_ && status.st_ino == inode_) ::unlink(path_.c_str());
}

int UnixListener::release() { return std::exchange(descriptor_, -1); }

std::string peer_user(int descriptor) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return "unknown user";
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(credentials.uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return found->pw_name;
  }
  return fmt::format("uid {}", credentials.uid);
}

}  // namespace gleaner::admin
