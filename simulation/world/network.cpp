#include "simulation/world/network.hpp"

#include <algorithm>
#include <utility>

#include "common/check.hpp"

namespace gleaner::simulation {
namespace {

constexpr std::uint64_t kRecordBytes = 16'384;
constexpr std::uint64_t kRecordExtraBytes = 22;
// Streams beside those of fates, which are numbered from 0 on.
constexpr std::uint64_t kSlowReaders = 1ULL << 62;
constexpr std::uint64_t kSplits = kSlowReaders + 1;
constexpr int kHandshakeRoundTrips = 2;  // TCP, then TLS 1.3

}  // namespace

std::uint64_t tls_bytes(std::uint64_t frame_bytes) {
  const std::uint64_t records = std::max<std::uint64_t>(1, (frame_bytes + kRecordBytes - 1) / kRecordBytes);
  return frame_bytes + records * kRecordExtraBytes;
}

VirtualNetwork::VirtualNetwork(Needs needs)
    : needs_(std::move(needs)),
      lines_(needs_.count),
      fates_(needs_.faults.seed == 0 ? needs_.seed : needs_.faults.seed, Purpose::network) {}

bool VirtualNetwork::is_reachable(std::uint32_t device) const {
  if (needs_.time->now() >= split_until_) return true;
  return Random(split_draw_, Purpose::network, kSplits, device).bits32() % 2 == 0;
}

DeviceTraits VirtualNetwork::traits_of(std::uint32_t device) const {
  DeviceTraits traits = needs_.devices->traits(device);
  if (needs_.faults.slow_readers > 0 &&
      Random(needs_.seed, Purpose::network, kSlowReaders, device).uniform() < needs_.faults.slow_readers)
    traits.downlink_bytes_per_s /= 100.0;
  return traits;
}

VirtualNetwork::Fate VirtualNetwork::draw_fate() {
  const Faults& faults = needs_.faults;
  Fate fate;
  if (!faults.any()) return fate;
  const auto happens = [&](double chance) { return chance > 0 && fates_.uniform() < chance; };
  fate.dropped = happens(faults.drops);
  fate.doubled = happens(faults.duplicates);
  fate.overtaken = happens(faults.reorders);
  if (happens(faults.delays)) fate.delay = from_seconds(to_seconds(faults.delay_max) * fates_.uniform());
  return fate;
}

VirtualNetwork::Passage VirtualNetwork::occupy(std::uint32_t device, std::uint64_t frame_bytes, Direction direction,
                                               const Fate& fate) {
  Line& line = lines_[device];
  const DeviceTraits traits = traits_of(device);
  const TransferDraw draw{needs_.seed, device, line.transfers++};
  Instant& free = direction == Direction::up ? line.up_free : line.down_free;
  const Instant begins = std::max(needs_.time->now(), free);
  const Duration passing = transfer_time(traits, tls_bytes(frame_bytes), direction, draw) + fate.delay;
  Instant arrives = begins + passing;
  // The latency of one frame is not waited for by the next, but none overtakes another on one connection.
  free = begins + std::max<Duration>(passing - traits.latency, Duration{});
  const Duration sending = free - begins;
  if (fate.overtaken) arrives = arrives + traits.latency * 2 + std::chrono::milliseconds(1);
  return {arrives, sending};
}

void VirtualNetwork::connect(std::uint32_t device) {
  Line& line = lines_[device];
  GLEANER_CHECK(!line.open && !line.opening);
  line.opening = true;
  ++line.connection;
  const DeviceTraits traits = traits_of(device);
  const std::uint32_t connection = line.connection;
  const Duration shaking =
      traits.latency * 2 * kHandshakeRoundTrips +
      transfer_time(traits, kHandshakeUpBytes, Direction::up, {needs_.seed, device, line.transfers++});
  needs_.time->after(shaking, [this, device, connection] {
    Line& now = lines_[device];
    if (now.connection != connection || !now.opening) return;
    now.opening = false;
    if (shut_ || !is_reachable(device)) return needs_.ends->disconnected(device, "nobody answers");
    bytes_.sockets_up += kHandshakeUpBytes;
    bytes_.sockets_down += kHandshakeDownBytes;
    now.open = true;
    ++open_lines_;
    now.up_free = now.down_free = needs_.time->now();
    needs_.ends->connected(device);
  });
}

// The same sums as those of connect() and occupy(), one after the other.
VirtualNetwork::Greeted VirtualNetwork::follow(std::uint32_t device, const Greeting& greeting) const {
  const DeviceTraits traits = traits_of(device);
  Greeted greeted{.transfers = lines_[device].transfers};
  const auto passing = [&](std::uint64_t bytes, Direction direction) {
    return transfer_time(traits, bytes, direction, {needs_.seed, device, greeted.transfers++});
  };
  const Instant shaken =
      needs_.time->now() + traits.latency * 2 * kHandshakeRoundTrips + passing(kHandshakeUpBytes, Direction::up);
  greeted.up_free = greeted.down_free = shaken;
  const auto carry = [&](Instant from, std::uint64_t frame_bytes, Direction direction) {
    Instant& free = direction == Direction::up ? greeted.up_free : greeted.down_free;
    const Instant begins = std::max(from, free);
    const Duration took = passing(tls_bytes(frame_bytes), direction);
    free = begins + std::max<Duration>(took - traits.latency, Duration{});
    return begins + took;
  };
  const Instant greeted_at = carry(shaken, greeting.hello_bytes, Direction::up);
  carry(greeted_at, greeting.welcome_bytes, Direction::down);
  const Instant offered_at = carry(greeted_at, greeting.offer_bytes, Direction::down);
  greeted.ends = carry(offered_at, greeting.accept_bytes, Direction::up);
  return greeted;
}

Instant VirtualNetwork::greeting_ends(std::uint32_t device, const Greeting& greeting) const {
  return follow(device, greeting).ends;
}

void VirtualNetwork::greet(std::uint32_t device, const Greeting& greeting) {
  Line& line = lines_[device];
  GLEANER_CHECK(is_calm() && !line.open && !line.opening);
  const Greeted greeted = follow(device, greeting);
  ++line.connection;
  line.open = true;
  ++open_lines_;
  line.up_free = greeted.up_free;
  line.down_free = greeted.down_free;
  line.transfers = greeted.transfers;
  bytes_.frames_up += greeting.hello_bytes + greeting.accept_bytes;
  bytes_.frames_down += greeting.welcome_bytes + greeting.offer_bytes;
  bytes_.sockets_up += kHandshakeUpBytes + tls_bytes(greeting.hello_bytes) + tls_bytes(greeting.accept_bytes);
  bytes_.sockets_down += kHandshakeDownBytes + tls_bytes(greeting.welcome_bytes) + tls_bytes(greeting.offer_bytes);
}

void VirtualNetwork::reopen(std::uint32_t device) {
  Line& line = lines_[device];
  GLEANER_CHECK(!line.open && !line.opening);
  line.open = true;
  ++open_lines_;
  line.up_free = line.down_free = needs_.time->now();
}

void VirtualNetwork::close(std::uint32_t device) {
  Line& line = lines_[device];
  if (line.open) --open_lines_;
  line.open = line.opening = false;
  ++line.connection;
}

void VirtualNetwork::lose(std::uint32_t device) {
  if (!lines_[device].open) return;
  close(device);
  needs_.ends->disconnected(device, "the connection is lost");
}

void VirtualNetwork::lose_all() {
  for (std::uint32_t device = 0; device < lines_.size(); ++device) lose(device);
}

void VirtualNetwork::drop_later(std::uint32_t device, Instant when) {
  needs_.time->at(when, [this, device, connection = lines_[device].connection] {
    if (lines_[device].connection == connection) lose(device);
  });
}

void VirtualNetwork::split(std::uint64_t draw, Instant until) {
  split_draw_ = draw;
  split_until_ = until;
  for (std::uint32_t device = 0; device < lines_.size(); ++device) {
    if (lines_[device].open && !is_reachable(device)) lose(device);
  }
}

void VirtualNetwork::send_up(std::uint32_t device, Bytes frame) {
  Line& line = lines_[device];
  if (!line.open) return;
  bytes_.frames_up += frame.size();
  bytes_.sockets_up += tls_bytes(frame.size());
  const Fate fate = draw_fate();
  const Passage passage = occupy(device, frame.size(), Direction::up, fate);
  const Instant arrives = passage.arrives;
  if (fate.dropped) return drop_later(device, arrives);
  const auto arrive = [this, device, sending = passage.sending, connection = line.connection](const Bytes& bytes) {
    if (lines_[device].open && lines_[device].connection == connection) needs_.ends->arrived_up(device, bytes, sending);
  };
  if (fate.doubled) needs_.time->at(arrives, [arrive, frame] { arrive(frame); });
  needs_.time->at(arrives, [arrive, frame = std::move(frame)] { arrive(frame); });
}

void VirtualNetwork::send_down(std::uint32_t device, std::uint64_t bytes, MakeFrame frame) {
  Line& line = lines_[device];
  if (!line.open) return;
  bytes_.frames_down += bytes;
  bytes_.sockets_down += tls_bytes(bytes);
  const Fate fate = draw_fate();
  const Instant arrives = occupy(device, bytes, Direction::down, fate).arrives;
  if (fate.dropped) return drop_later(device, arrives);
  const auto arrive = [this, device, connection = line.connection, bytes](const MakeFrame& make) {
    if (!lines_[device].open || lines_[device].connection != connection) return;
    const Bytes made = make();
    GLEANER_CHECK(made.size() == bytes);
    needs_.ends->arrived_down(device, made);
  };
  if (fate.doubled) needs_.time->at(arrives, [arrive, frame] { arrive(frame); });
  needs_.time->at(arrives, [arrive, frame = std::move(frame)] { arrive(frame); });
}

void VirtualNetwork::restart(std::uint64_t draw) {
  for (std::uint32_t device = 0; device < lines_.size(); ++device) {
    if (lines_[device].open || lines_[device].opening) close(device);
  }
  fates_ = Random(needs_.faults.seed == 0 ? needs_.seed : needs_.faults.seed, Purpose::network, draw);
}

void VirtualNetwork::save(ByteWriter& out) const {
  std::uint64_t sent = 0;
  for (const Line& line : lines_) sent += line.transfers > 0 ? 1 : 0;
  out.put_varint(sent);
  for (std::uint32_t device = 0; device < lines_.size(); ++device) {
    if (lines_[device].transfers == 0) continue;
    out.put_varint(device);
    out.put_varint(lines_[device].transfers);
  }
  out.put(bytes_);
}

bool VirtualNetwork::restore(ByteReader& in) {
  for (std::uint64_t left = in.get_varint(); left > 0 && in.ok(); --left) {
    const std::uint64_t device = in.get_varint();
    const std::uint64_t transfers = in.get_varint();
    if (device >= lines_.size() || transfers > UINT32_MAX) return false;
    lines_[device].transfers = static_cast<std::uint32_t>(transfers);
  }
  bytes_ = in.get<LineBytes>();
  return in.ok();
}

}  // namespace gleaner::simulation
