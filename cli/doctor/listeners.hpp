#pragma once
// Which process listens on a TCP port, as far as /proc tells this user; and an owned descriptor.

#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

namespace gleaner::cli {

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int get() const { return value_; }

 private:
  int value_;
};

// "gleaner-coordin (process 123)", or "" when it is not known.
std::string listener_on(std::uint16_t port);

}  // namespace gleaner::cli
