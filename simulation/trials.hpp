#pragma once
// The same experiment many times under seeded faults, each checked: the run ends; the database is sound; what every
// device holds is what it computed less what was included, to the last bit; nothing is counted twice and nothing
// committed is lost; rounds close in time; and a reproducible run ends with the model of the calm one.

#include <cstdint>
#include <string>

#include "simulation/stage.hpp"

namespace gleaner::simulation {

class Trials {
 public:
  Trials(Stage& stage, const Faults& faults);

  // Without faults: what reproducible runs are compared with. Errors: as run().
  Status run_calm();
  // An error says which promise is broken. The same seed does the same again.
  Status run(std::uint64_t seed);

  std::string report() const;  // for people: how many runs, and what happened to them

 private:
  Result<std::uint64_t> run_checked(const Experiment& experiment);  // the model's hash

  Stage& stage_;
  const Faults faults_;
  std::uint64_t calm_hash_ = 0;
  std::uint64_t runs_ = 0;
  std::uint64_t crashes_ = 0;
  std::uint64_t rounds_ = 0;
  std::uint64_t answers_ = 0;
  std::uint64_t late_ = 0;
  std::uint64_t lapsed_ = 0;
};

}  // namespace gleaner::simulation
