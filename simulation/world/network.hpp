#pragma once
// The lines between the devices and the coordinator: handshakes, frames one after the other in each direction, and
// what goes wrong with them. Frames are the real encoded bytes; what TLS and TCP add is estimated. A line is 40 bytes a
// device. Virtual time, one owner.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/bytes.hpp"
#include "common/error.hpp"
#include "common/random.hpp"
#include "simulation/devices/devices.hpp"
#include "simulation/experiment.hpp"
#include "simulation/world/virtual_time.hpp"

namespace gleaner::simulation {

struct LineBytes {
  std::uint64_t frames_up = 0;  // as encoded, heartbeats apart
  std::uint64_t frames_down = 0;
  std::uint64_t sockets_up = 0;  // estimate: with TLS records and handshakes
  std::uint64_t sockets_down = 0;
};

// What TLS 1.3 makes of a frame: records of at most 16 KiB, each with 5 bytes of head, a tag of 16 and a type.
std::uint64_t tls_bytes(std::uint64_t frame_bytes);
// Of a handshake with both certificates (P-256), and the tickets; measured at a loopback connection.
inline constexpr std::uint64_t kHandshakeUpBytes = 870;
inline constexpr std::uint64_t kHandshakeDownBytes = 1'640;

class VirtualNetwork {
 public:
  // What happens at the ends, in virtual time.
  class Ends {
   public:
    virtual ~Ends() = default;
    virtual void connected(std::uint32_t device) = 0;                                // both ends know
    virtual void disconnected(std::uint32_t device, const std::string& reason) = 0;  // never was, or is no more
    // sending: how long its bytes took the line.
    virtual void arrived_up(std::uint32_t device, const Bytes& frame, Duration sending) = 0;
    virtual void arrived_down(std::uint32_t device, const Bytes& frame) = 0;
  };

  struct Needs {
    VirtualTime* time = nullptr;
    const Devices* devices = nullptr;
    Ends* ends = nullptr;
    std::uint32_t count = 0;
    std::uint64_t seed = 0;
    Faults faults;
  };
  explicit VirtualNetwork(Needs needs);

  // Ends with connected() or disconnected().
  void connect(std::uint32_t device);
  // What is on its way is lost, in both directions; says nothing to the ends.
  void close(std::uint32_t device);
  bool is_open(std::uint32_t device) const { return lines_[device].open; }
  std::uint32_t connection_of(std::uint32_t device) const { return lines_[device].connection; }
  void reopen(std::uint32_t device);  // at once, without a handshake and without a word

  // A device that comes for the first time always says and hears the same: its handshake and its first frames, by their
  // lengths, as connect(), send_up() and send_down() would carry them. In a world without faults only.
  struct Greeting {
    std::uint64_t hello_bytes = 0;
    std::uint64_t welcome_bytes = 0;
    std::uint64_t offer_bytes = 0;
    std::uint64_t accept_bytes = 0;
  };
  bool is_calm() const { return !needs_.faults.any(); }
  // When its accept would arrive, if it began now; nothing happens yet.
  Instant greeting_ends(std::uint32_t device, const Greeting& greeting) const;
  // The line is open and the bytes are counted.
  void greet(std::uint32_t device, const Greeting& greeting);
  std::uint32_t open_lines() const { return open_lines_; }

  void send_up(std::uint32_t device, Bytes frame);
  // A frame that is large, or the same for many, is made when it arrives; bytes is its length.
  using MakeFrame = std::function<Bytes()>;
  void send_down(std::uint32_t device, std::uint64_t bytes, MakeFrame frame);

  void lose_all();
  // While it is shut nobody connects: the coordinator is down.
  void set_shut(bool shut) { shut_ = shut; }
  // Until then half of the devices, drawn by `draw`, reach nobody.
  void split(std::uint64_t draw, Instant until);
  bool is_reachable(std::uint32_t device) const;

  const LineBytes& bytes() const { return bytes_; }
  // All lines are closed, what is on its way is lost, and the draws of faults begin anew with `draw`.
  void restart(std::uint64_t draw);
  // The draws' counters of the devices that ever sent, and the bytes, for a checkpoint.
  void save(ByteWriter& out) const;
  bool restore(ByteReader& in);

 private:
  struct Line {
    Instant up_free;  // when the last frame has left
    Instant down_free;
    std::uint32_t connection = 0;  // what belongs to an older one is lost
    std::uint32_t transfers = 0;
    bool open = false;
    bool opening = false;
  };
  struct Fate {
    bool dropped = false;
    bool doubled = false;
    bool overtaken = false;
    Duration delay{};
  };

  struct Greeted {
    Instant up_free;
    Instant down_free;
    Instant ends;
    std::uint32_t transfers = 0;
  };
  Greeted follow(std::uint32_t device, const Greeting& greeting) const;

  Fate draw_fate();
  DeviceTraits traits_of(std::uint32_t device) const;
  struct Passage {
    Instant arrives;
    Duration sending{};  // takes the line so long
  };
  Passage occupy(std::uint32_t device, std::uint64_t frame_bytes, Direction direction, const Fate& fate);
  void lose(std::uint32_t device);
  void drop_later(std::uint32_t device, Instant when);

  Needs needs_;
  std::vector<Line> lines_;
  std::uint32_t open_lines_ = 0;
  LineBytes bytes_;
  bool shut_ = false;
  std::uint64_t split_draw_ = 0;
  Instant split_until_;
  Random fates_;
};

}  // namespace gleaner::simulation
