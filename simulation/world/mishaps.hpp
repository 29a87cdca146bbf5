#pragma once
// A bad world, drawn from a seed: deaths of devices and of the coordinator, full disks, a network cut in two. (What
// happens to single frames is the network's.) Asked in the order of virtual time.

#include <cstdint>
#include <memory>
#include <optional>

#include "common/random.hpp"
#include "simulation/experiment.hpp"
#include "simulation/world/fleet.hpp"

namespace gleaner::simulation {

class BadWorld final : public Mishaps {
 public:
  BadWorld(const Faults& faults, std::uint64_t seed, const VirtualTime& time);

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

  bool disk_is_full();  // the coordinator's, for a while now and then

 private:
  bool happens(double chance) { return chance > 0 && random_.uniform() < chance; }

  const Faults faults_;
  const std::uint64_t seed_;
  const VirtualTime& time_;
  Random random_;
  Instant full_until_;
};

}  // namespace gleaner::simulation
