#pragma once
// How far an experiment is: a bar in place on a terminal, now and then a line elsewhere.

#include <cstdint>
#include <optional>
#include <string>

#include "cli/command.hpp"
#include "simulation/output/round_output.hpp"

namespace gleaner::cli {

class SimulationProgress {
 public:
  SimulationProgress(Console& console, std::uint32_t versions);
  void show(const simulation::RoundRecord& record);
  void count(const simulation::RoundRecord& record);  // one of before this attempt
  void end();

 private:
  std::string facts(const simulation::RoundRecord& record) const;

  Console& console_;
  std::uint32_t versions_;
  std::uint32_t next_line_ = 0;
  double began_s_ = -1.0;  // real_s of the first record of this attempt
  std::uint32_t began_round_ = 0;
  std::optional<double> accuracy_;  // the newest
  std::uint64_t bytes_up_ = 0;
  std::uint64_t bytes_down_ = 0;
};

}  // namespace gleaner::cli
