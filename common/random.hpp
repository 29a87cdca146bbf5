#pragma once
// Counter-based random numbers: Philox4x32-10 (Salmon et al., SC'11, "Parallel random numbers: as easy as 1, 2, 3").
// A stream is a function of (seed, purpose, a, b), so that whoever draws, in whatever order, gets the same numbers.
// Integers are exact everywhere; normal() and gamma() use libm and are for data partitions and device models, never for
// anything that is replayed across machines.

#include <array>
#include <cstdint>

namespace gleaner {

enum class Purpose : std::uint32_t {
  initial_weights = 1,
  partition = 2,
  shuffle = 3,
  cohort = 4,
  jitter = 5,
  test = 6,
  device_model = 7,
  network = 8,
};

// Ten rounds of Philox4x32: 128 bits of counter and 64 bits of key give 128 random bits.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

class Random {
 public:
  // Streams with different (seed, purpose, a, b) are independent; a and b are round and device, layer, or whatever
  // fits.
  Random(std::uint64_t seed, Purpose purpose, std::uint64_t a = 0, std::uint32_t b = 0);

  std::uint32_t bits32();
  std::uint64_t bits64() { return (std::uint64_t{bits32()} << 32) | bits32(); }
  std::uint32_t below(std::uint32_t bound);  // uniform in [0, bound), unbiased; bound > 0
  double uniform();                          // [0, 1), 53 bits, exact
  double normal();                           // mean 0, deviation 1
  double gamma(double shape);                // scale 1; shape > 0 (Marsaglia, Tsang 2000)

  using result_type = std::uint32_t;  // a UniformRandomBitGenerator
  static constexpr std::uint32_t min() { return 0; }
  static constexpr std::uint32_t max() { return 0xffffffffU; }
  std::uint32_t operator()() { return bits32(); }

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> block_{};
  std::uint32_t used_ = 4;
};

}  // namespace gleaner
