#pragma once
// Random sparse vectors and groupings for the payload tests.

#include <cstdint>
#include <vector>

#include "common/random.hpp"
#include "compression/payload.hpp"

namespace gleaner::testing {

// count different indices below size, ascending.
std::vector<std::uint32_t> random_indices(Random& random, std::uint32_t size, std::uint32_t count);

// At least one index below size: runs and thin stretches in turn, so that no one density describes them.
std::vector<std::uint32_t> clustered_indices(Random& random, std::uint32_t size);

// Up to 12 groups, some of them empty or of size 0, of at most size_max entries each; densities from 0 to 1 by group.
Grouping random_grouping(Random& random, std::uint32_t size_max);
SparseVector random_vector(Random& random, const Grouping& grouping);

// A finite value of any sign and scale, |x| <= bound; now and then a zero, a denormal, the bound itself.
float nasty_value(Random& random, float bound);

}  // namespace gleaner::testing
