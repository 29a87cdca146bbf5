#pragma once
// A peer that sends what it likes, byte for byte.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace gleaner {

class RawPeer {
 public:
  static RawPeer unix_socket(const std::string& path);
  static RawPeer tcp(std::uint16_t port);
  RawPeer(RawPeer&& other) noexcept;
  RawPeer& operator=(RawPeer&&) = delete;
  ~RawPeer();

  bool send(std::string_view bytes) const;  // false when the far side is gone
  void finish() const;                      // sends no more
  std::string read_to_end() const;          // what comes until the far side closes; at most 30 s
  std::string read_some() const;            // "" at the end
  bool closes_within(std::chrono::milliseconds time) const;

 private:
  explicit RawPeer(int descriptor);
  int descriptor_;
};

// One request on a connection of its own; the whole reply.
std::string ask_unix(const std::string& path, std::string_view request);
std::string ask_tcp(std::uint16_t port, std::string_view request);

int status_of(const std::string& reply);
std::string body_of(const std::string& reply);

}  // namespace gleaner
