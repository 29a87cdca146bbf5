#pragma once
// The operator's Unix socket in the file system. A name is taken over only when it is a socket on which nobody answers.

#include <cstdint>
#include <string>

#include "common/error.hpp"

namespace gleaner::admin {

enum class SocketState { absent, stale, answers };

// Never blocks. Errors: bad_input (the path is too long, or something else than a socket lies there), conflict (not
// permitted).
Result<SocketState> probe_socket(const std::string& path);

// A listening socket with its name, mode 0600 from the first moment on; the name goes with it. Errors: conflict when
// somebody answers there, bad_input for a path that cannot be one, fatal.
class UnixListener {
 public:
  static Result<UnixListener> listen(const std::string& path);
  UnixListener(UnixListener&& other) noexcept;
  UnixListener& operator=(UnixListener&&) = delete;
  ~UnixListener();

  int release();  // the descriptor, once; the caller closes it

 private:
  UnixListener(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_;
  std::uint64_t device_ = 0;  // of the name, so that only our own is removed
  std::uint64_t inode_ = 0;
};

// The user at the other end of a connected Unix socket: a name, or "uid 1234" for one without.
std::string peer_user(int descriptor);

}  // namespace gleaner::admin
