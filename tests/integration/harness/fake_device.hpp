#pragma once
// A device that does what a test wants, over real TLS and with real frames. Blocking; one thread.

#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>

#include "protocol/link/link.hpp"
#include "tests/integration/harness/world.hpp"

namespace gleaner::testing {

// A message and the bytes that its views point into.
struct Incoming {
  InFrame frame;
  Message message;
};

class FakeDevice {
 public:
  // certificate, ca: by the names of their files in the world.
  FakeDevice(const World& world, const std::string& certificate, const std::string& ca = "ca");
  ~FakeDevice();

  // A connection without a word said.
  Status connect();
  void hello();
  void send(const Message& message);
  void send_bytes(Bytes bytes);
  // The next message; nothing when the connection ended, which `end()` explains, or nothing came.
  std::optional<Incoming> next(milliseconds patience = kPatience);
  // The next message of that kind; others are passed over.
  template <class T>
  std::optional<T> wait_for(milliseconds patience = kPatience) {
    while (auto got = next(patience)) {
      if (const T* found = std::get_if<T>(&got->message)) return *found;
    }
    return std::nullopt;
  }
  // True when the coordinator ends the connection.
  bool is_dropped(milliseconds patience = kPatience);
  const std::string& end() const { return end_; }

  // Connects, says hello and takes part; returns its plan.
  std::optional<Plan> join(std::uint32_t samples);
  const RunSpec& spec() const { return spec_; }
  std::string peer_serial() const { return link_ ? link_->peer().serial : ""; }
  void forget();  // closes the connection

 private:
  template <class T>
  std::optional<T> run(boost::asio::awaitable<T> work, milliseconds patience);

  const World& world_;
  TlsFiles files_;
  boost::asio::io_context io_{1};
  std::shared_ptr<Link> link_;
  RunSpec spec_;
  std::string end_;
};

}  // namespace gleaner::testing
