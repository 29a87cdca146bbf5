#pragma once
// Who keeps the books of an experiment: what every device computed, sent, and was told.

#include <cstdint>
#include <span>

#include "client/session/session.hpp"

namespace gleaner::simulation {

class Ledger {
 public:
  virtual ~Ledger() = default;
  // A device trained for a plan and stored its answer; on the owner's thread, in the order of virtual time.
  virtual void answered(std::uint32_t device, std::span<const float> update, const session::Answer& answer) = 0;
};

}  // namespace gleaner::simulation
