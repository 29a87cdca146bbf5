#include "tests/coordinator/admin/raw_peer.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>

#include "common/check.hpp"

namespace gleaner {

RawPeer::RawPeer(int descriptor) : descriptor_(descriptor) {
  GLEANER_CHECK(descriptor >= 0);
  const timeval limit{30, 0};
  ::setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

RawPeer RawPeer::unix_socket(const std::string& path) {
  RawPeer peer(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  GLEANER_CHECK(path.size() < sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.data(), path.size());
  GLEANER_CHECK(::connect(peer.descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  return peer;
}

RawPeer RawPeer::tcp(std::uint16_t port) {
  RawPeer peer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  GLEANER_CHECK(::connect(peer.descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  return peer;
}

RawPeer::RawPeer(RawPeer&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

RawPeer::~RawPeer() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool RawPeer::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

void RawPeer::finish() const { ::shutdown(descriptor_, SHUT_WR); }

std::string RawPeer::read_some() const {
  std::array<char, 65536> buffer{};
  const ssize_t size = ::recv(descriptor_, buffer.data(), buffer.size(), 0);
  return size > 0 ? std::string(buffer.data(), static_cast<std::size_t>(size)) : "";
}

std::string RawPeer::read_to_end() const {
  std::string all;
  for (std::string piece = read_some(); !piece.empty(); piece = read_some()) all += piece;
  return all;
}

bool RawPeer::closes_within(std::chrono::milliseconds time) const {
  pollfd waiting{descriptor_, POLLIN | POLLRDHUP, 0};
  if (::poll(&waiting, 1, static_cast<int>(time.count())) <= 0) return false;
  char byte = 0;
  return ::recv(descriptor_, &byte, 1, MSG_PEEK) <= 0;
}

std::string ask_unix(const std::string& path, std::string_view request) {
  const RawPeer peer = RawPeer::unix_socket(path);
  peer.send(request);
  return peer.read_to_end();
}

std::string ask_tcp(std::uint16_t port, std::string_view request) {
  const RawPeer peer = RawPeer::tcp(port);
  peer.send(request);
  return peer.read_to_end();
}

int status_of(const std::string& reply) {
  return reply.starts_with("HTTP/1.") && reply.size() > 12 ? std::stoi(reply.substr(9, 3)) : 0;
}

std::string body_of(const std::string& reply) {
  const auto at = reply.find("\r\n\r\n");
  return at == std::string::npos ? "" : reply.substr(at + 4);
}

}  // namespace gleaner
