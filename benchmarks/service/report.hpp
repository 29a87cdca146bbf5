#pragma once
// One figure, what it should be, and what the same machine did beside it: printed as lines, written as JSON.

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.hpp"

namespace gleaner::bench {

struct Reference {  // a floor or a peer, measured in the same run
  std::string name;
  double value = 0.0;
};

struct Row {
  std::string name;  // stable, for machines
  std::string text;  // what was measured, for people
  std::string unit;
  double value = 0.0;
  double target = 0.0;  // at most
  std::vector<Reference> references;
  std::string note;

  bool met() const { return value <= target; }
};

struct Machine {
  std::string processor;
  std::uint32_t cores = 0;
  double memory_gib = 0.0;
  std::string system;
};
Machine this_machine();

std::string to_line(const Row& row);
Status write_json(const std::string& path, const std::vector<Row>& rows);

double median_of(std::vector<double> values);  // not empty

}  // namespace gleaner::bench
