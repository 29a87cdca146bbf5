#include "tests/compression/vectors.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace gleaner::testing {

std::vector<std::uint32_t> random_indices(Random& random, std::uint32_t size, std::uint32_t count) {
  // Selection sampling (Knuth, volume 2, 3.4.2 S).
  std::vector<std::uint32_t> indices;
  for (std::uint32_t i = 0; i < size && indices.size() < count; ++i) {
    if (random.below(size - i) < count - indices.size()) indices.push_back(i);
  }
  return indices;
}

std::vector<std::uint32_t> clustered_indices(Random& random, std::uint32_t size) {
  std::vector<std::uint32_t> indices;
  std::uint32_t next = random.below(size);
  while (next < size) {
    const std::uint32_t spread = 1U << random.below(9);
    for (std::uint32_t left = 1 + random.below(100); left > 0 && next < size; --left) {
      indices.push_back(next);
      next += 1 + random.below(spread);
    }
    next += random.below(4) == 0 ? random.below(size) : random.below(64);
  }
  return indices;
}

Grouping random_grouping(Random& random, std::uint32_t size_max) {
  Grouping grouping;
  const std::uint32_t groups = random.below(12) + 1;
  for (std::uint32_t g = 0; g < groups; ++g) {
    grouping.sizes.push_back(random.below(4) == 0 ? random.below(4) : random.below(size_max + 1));
  }
  return grouping;
}

SparseVector random_vector(Random& random, const Grouping& grouping) {
  SparseVector vector;
  for (const std::uint32_t size : grouping.sizes) {
    const std::uint32_t shares[] = {0, 1, size / 200, size / 30, size / 3, size - size / 30, size};
    const std::uint32_t count = std::min(size, shares[random.below(7)]);
    const bool clustered = count > 0 && random.below(4) == 0;
    for (const std::uint32_t index :
         clustered ? clustered_indices(random, size) : random_indices(random, size, count)) {
      vector.indices.push_back(vector.dimension + index);
      vector.values.push_back(static_cast<float>(random.normal()));
    }
    vector.dimension += size;
  }
  return vector;
}

float nasty_value(Random& random, float bound) {
  const float sign = random.below(2) == 0 ? 1.0F : -1.0F;
  switch (random.below(8)) {
    case 0: return sign * 0.0F;
    case 1: return sign * bound;
    case 2: return sign * std::bit_cast<float>(random.below(1U << 23));  // denormal
    case 3: return sign * std::nextafter(bound, 0.0F);
    case 4: return sign * bound * std::ldexp(1.0F, -static_cast<int>(random.below(40)));
    case 5: return sign * bound * static_cast<float>(random.below(255)) / 254.0F;
    default: return sign * std::bit_cast<float>(random.below(std::bit_cast<std::uint32_t>(bound) + 1));
  }
}

}  // namespace gleaner::testing
