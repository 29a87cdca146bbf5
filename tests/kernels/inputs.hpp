#pragma once
// Named inputs that selections find hard, and the backends that the conformance tests run over.

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kernels.hpp"

namespace gleaner::testing {

struct NamedVector {
  std::string name;
  std::vector<float> values;
};

// Finite vectors of size entries: random, ties, zeros, denormals, sorted, huge, tiny.
std::vector<NamedVector> finite_vectors(std::size_t size);

std::vector<float> normal_vector(std::size_t size, std::uint64_t seed);

// A backend of this build but the reference; the cpu backend once for every instruction set that this machine has.
class Subject {
 public:
  Subject(std::string name, const KernelTable& table, std::int64_t target)
      : name_(std::move(name)), table_(&table), target_(target) {}

  const std::string& name() const { return name_; }
  const KernelTable* operator->() const;  // its instruction set is the one that runs from now on

 private:
  std::string name_;
  const KernelTable* table_;
  std::int64_t target_;  // of Highway; 0: whatever is best
};
std::ostream& operator<<(std::ostream& out, const Subject& subject);

std::vector<Subject> subjects();

}  // namespace gleaner::testing
