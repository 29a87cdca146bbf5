#pragma once
// Named inputs that selections find hard, and the backends that the conformance tests run over.

#include <cstddef>
#include <cstdint>
#include <string>
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

// Every backend of this build but the reference.
std::vector<const KernelTable*> tables_under_test();

}  // namespace gleaner::testing
