#pragma once
// A bad world, drawn from a seed: deaths of devices and of the coordinator, full disks, a network cut in two. (What
// happens to single frames is the network's.) Asked in the order of virtual time.

#include <cstdint>
#include <memory>
#include <optional>

#include "common/random.hpp"
#include "simulation/experiment.hpp"
#include "simulation/world/fleet.hpp"
#include "storage/database.hpp"

namespace gleaner::simulation {

class BadWorld final : public Mishaps {
 public:
  BadWorld(const Faults& faults, std::uint64_t seed, const VirtualTime& time);
  ~BadWorld() override;

  // A checkpoint or the beginning: what is drawn from here on does not depend on what was drawn before.
  void restart(std::uint64_t draw);

  Death dies(std::uint32_t device) override;
  bool state_disk_is_full(std::uint32_t device) override;

  // Asked when a round begins.
  struct RoundFate {
    std::optional<Duration> coordinator_dies_after;
    std::optional<Duration> network_cut;  // how long
    std::uint64_t cut_draw = 0;
  };
  RoundFate round_begins();

  // A database whose disk is full for a while now and then.
  Database* in_front_of(Database* database);

 private:
  bool happens(double chance) { return chance > 0 && random_.uniform() < chance; }
  bool disk_is_full();

  class FullDisk;
  const Faults faults_;
  const std::uint64_t seed_;
  const VirtualTime& time_;
  Random random_;
  Instant full_until_;
  std::unique_ptr<FullDisk> full_disk_;
};

}  // namespace gleaner::simulation
