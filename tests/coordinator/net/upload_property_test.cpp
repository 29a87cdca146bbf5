// Whatever devices and owner do to connections in whatever order: all memory that was promised comes back once.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "common/random.hpp"
#include "tests/coordinator/net/world.hpp"

namespace gleaner::testing {
namespace {

constexpr std::size_t kSlots = 5;
constexpr std::uint64_t kCredit = 40'000;

struct Slot {
  std::optional<Device> device;
  std::uint64_t plan = 0;
  std::uint32_t total = 0;
  std::uint32_t sent = 0;
};

class Chaos {
 public:
  Chaos(NetTest& test, std::uint64_t seed) : test_(test), random_(seed, Purpose::test), owner_(test.io_, kCredit) {}

  asio::awaitable<void> run(int steps) {
    for (int i = 0; i < steps; ++i) {
      Slot& slot = slots_[random_.below(kSlots)];
      if (!slot.device) {
        slot = {};
        slot.device = co_await test_.join(owner_);
        ++joined_;
      }
      act(slot);
      for (std::uint32_t turns = random_.below(12); turns > 0; --turns) co_await turn(test_.io_);
      EXPECT_LE(owner_.upload_credit().used_bytes(), kCredit);
    }
    for (Slot& slot : slots_) {
      if (slot.device) slot.device->link->close("done");
    }
    while (owner_.tasks().size() > 0) {
      owner_.fold_one();
      co_await turn(test_.io_);
    }
    while (owner_.fold_one()) {
    }
    EXPECT_EQ(owner_.upload_credit().used_bytes(), 0U);
    EXPECT_EQ(owner_.ended.size(), joined_);
    EXPECT_EQ(owner_.in_order, owner_.updates);
    updates_ += owner_.updates;
  }
  static inline std::size_t updates_ = 0;

 private:
  void send(Slot& slot, Bytes frame) { (void)slot.device->link->send(std::move(frame)); }

  void begin(Slot& slot) {
    constexpr std::uint32_t kTotals[] = {1, 900, 15'000, 39'000, 60'000, 200'000};
    slot.plan = ++plans_;
    slot.total = kTotals[random_.below(std::size(kTotals))];
    slot.sent = 0;
    go_on(slot);
  }

  void go_on(Slot& slot) {
    if (slot.sent == slot.total) return;
    const std::uint32_t size = std::min(slot.total - slot.sent, 1 + random_.below(30'000));
    send(slot, chunk(slot.plan, slot.total, slot.sent, size));
    slot.sent += size;
  }

  void act(Slot& slot) {
    switch (random_.below(16)) {
      case 0:
      case 1:
      case 2: begin(slot); break;
      case 3:
      case 4:
      case 5:
      case 6: go_on(slot); break;
      case 7:
        while (slot.sent < slot.total) go_on(slot);
        break;
      case 8: (void)owner_.fold_one(); break;
      case 9:
        slot.device->link->close("the device goes");
        slot.device.reset();
        break;
      case 10: slot.device.reset(); break;  // without a word: nobody reads it any more
      case 11:
        slot.device->connection->close("the owner closes it");
        slot.device.reset();
        break;
      case 12:
        slot.device->connection->superseded = true;
        slot.device->connection->send(Superseded{1000});
        slot.device->connection->close("superseded");
        slot.device.reset();
        break;
      case 13: send(slot, encode_frame(Accept{.run = {1}})); break;
      case 14: owner_.bytes_max = random_.below(3) * 80'000; break;
      default: send(slot, chunk(slot.plan + 1, 1000, 500, 10)); break;  // continues nothing
    }
  }

  NetTest& test_;
  Random random_;
  FakeOwner owner_;
  std::array<Slot, kSlots> slots_;
  std::uint64_t plans_ = 0;
  std::size_t joined_ = 0;
};

TEST_F(NetTest, EveryPromiseOfMemoryComesBackOnce) {
  EXPECT_TRUE(rc::check("the credit is whole again", [this] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    Chaos chaos(*this, seed);
    run(chaos.run(60));
    RC_ASSERT(!HasFailure());
  }));
  EXPECT_GT(Chaos::updates_, 100U);
}

}  // namespace
}  // namespace gleaner::testing
