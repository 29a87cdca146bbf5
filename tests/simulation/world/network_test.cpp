#include "simulation/world/network.hpp"

#include <gtest/gtest.h>

#include "bed.hpp"

namespace gleaner::simulation {
namespace {

TEST(VirtualTime, EventsComeInTimeAndThenInOrder) {
  VirtualTime time;
  std::string seen;
  time.after(std::chrono::seconds(2), [&] { seen += 'c'; });
  time.after(std::chrono::seconds(1), [&] {
    seen += 'a';
    time.soon([&] { seen += 'b'; });
  });
  time.after(std::chrono::seconds(2), [&] { seen += 'd'; });
  while (time.step()) {
  }
  EXPECT_EQ(seen, "abcd");
  EXPECT_EQ(time.now().since_start, std::chrono::seconds(2));
}

// Both ends of the lines, writing down what happens.
class Ends final : public VirtualNetwork::Ends {
 public:
  void connected(std::uint32_t) override { ++connections; }
  void disconnected(std::uint32_t, const std::string&) override { ++losses; }
  void arrived_up(std::uint32_t, const Bytes& frame, Duration sending) override {
    up.push_back(frame.size());
    last_sending = sending;
  }
  void arrived_down(std::uint32_t, const Bytes& frame) override { down.push_back(frame.size()); }
  int connections = 0;
  int losses = 0;
  std::vector<std::size_t> up;
  std::vector<std::size_t> down;
  Duration last_sending{};
};

struct Lines {
  explicit Lines(Faults faults = {})
      : devices({.samples_per_s = 1.0,
                 .uplink_bytes_per_s = 10'000.0,
                 .downlink_bytes_per_s = 100'000.0,
                 .latency = std::chrono::milliseconds(50)}),
        network({.time = &time, .devices = &devices, .ends = &ends, .count = 4, .seed = 1, .faults = faults}) {}
  void run() {
    while (time.step()) {
    }
  }
  double seconds() const { return to_seconds(time.now().since_start); }

  VirtualTime time;
  AlikeDevices devices;
  Ends ends;
  VirtualNetwork network;
};

TEST(VirtualNetwork, AFrameTakesItsBytesOverTheRateAndTheLatency) {
  Lines lines;
  lines.network.connect(0);
  lines.run();
  ASSERT_EQ(lines.ends.connections, 1);
  const double began = lines.seconds();
  lines.network.send_up(0, Bytes(10'000 - 22));
  lines.run();
  EXPECT_NEAR(lines.seconds() - began, 1.05, 1e-6);
  EXPECT_NEAR(to_seconds(lines.ends.last_sending), 1.0, 1e-6);
  lines.network.send_down(0, 100'000, [] { return Bytes(100'000); });
  lines.run();
  EXPECT_NEAR(lines.seconds() - began, 2.10 + 7 * 22 / 100'000.0, 1e-6);
  EXPECT_EQ(lines.network.bytes().frames_up, 10'000U - 22);
  EXPECT_EQ(lines.network.bytes().frames_down, 100'000U);
}

TEST(VirtualNetwork, FramesOfALineComeOneAfterTheOther) {
  Lines lines;
  lines.network.connect(0);
  lines.run();
  const double began = lines.seconds();
  for (const std::size_t bytes : {10'000U, 1U, 5'000U}) lines.network.send_up(0, Bytes(bytes));
  lines.run();
  EXPECT_EQ(lines.ends.up, (std::vector<std::size_t>{10'000, 1, 5'000}));
  EXPECT_NEAR(lines.seconds() - began, (10'000 + 1 + 5'000 + 3 * 22) / 10'000.0 + 0.05, 1e-6);
}

TEST(VirtualNetwork, WhatIsOnALineThatEndsIsLost) {
  Lines lines;
  lines.network.connect(0);
  lines.run();
  lines.network.send_up(0, Bytes(100));
  lines.network.close(0);
  lines.network.connect(0);
  lines.run();
  EXPECT_TRUE(lines.ends.up.empty());
  EXPECT_EQ(lines.ends.connections, 2);
}

TEST(VirtualNetwork, ADroppedFrameTakesTheLineWithIt) {
  Lines lines({.drops = 1.0});
  lines.network.connect(0);
  lines.run();
  lines.network.send_up(0, Bytes(100));
  lines.run();
  EXPECT_TRUE(lines.ends.up.empty());
  EXPECT_EQ(lines.ends.losses, 1);
  EXPECT_FALSE(lines.network.is_open(0));
}

TEST(VirtualNetwork, NobodyConnectsWhileItIsShut) {
  Lines lines;
  lines.network.set_shut(true);
  lines.network.connect(0);
  lines.run();
  EXPECT_EQ(lines.ends.connections, 0);
  EXPECT_EQ(lines.ends.losses, 1);
}

TEST(VirtualNetwork, CountersOutliveACheckpoint) {
  Lines lines;
  lines.network.connect(2);
  lines.run();
  lines.network.send_up(2, Bytes(100));
  lines.run();
  Bytes saved;
  ByteWriter out(saved);
  lines.network.save(out);
  Lines other;
  ByteReader in(saved);
  ASSERT_TRUE(other.network.restore(in));
  EXPECT_TRUE(in.at_end());
  Bytes again;
  ByteWriter out_again(again);
  other.network.save(out_again);
  EXPECT_EQ(again, saved);
}

}  // namespace
}  // namespace gleaner::simulation
