#pragma once
// A peer with bad manners, in a thread of its own: it speaks TLS or plain text, with any certificate, by blocking
// calls.

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "protocol/link/tls_context.hpp"

struct ssl_st;

namespace gleaner::testing {

struct RawOptions {
  TlsFiles files;  // certificate "": none is sent
  bool is_server = false;
  int tls_version_max = 0;                 // 0: any
  std::string plain_text;                  // said instead of TLS
  std::function<void(ssl_st*)> talk = {};  // after the handshake
};

// Connects to 127.0.0.1:port, or is connected to there. Ends when the far side closes.
class RawPeer {
 public:
  RawPeer(std::uint16_t port, RawOptions options);  // a client
  explicit RawPeer(RawOptions options);             // a server on a free port
  ~RawPeer() { thread_.join(); }
  std::uint16_t port() const { return port_; }

 private:
  std::uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace gleaner::testing
