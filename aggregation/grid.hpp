#pragma once
// The integer grid that makes sums independent of order. A value x (|x| <= 2^clip_exponent) of a device with n samples
// contributes llrint(x * n * 2^e) with e = 61 - clip_exponent - weight_bits, where 2^weight_bits is at least the sum of
// the weights of all who could be accepted. A round's sum then stays within 2^61 and, with the residual, below 2^63.

#include <cstdint>

#include "common/error.hpp"

namespace gleaner {

struct Grid {
  int clip_exponent = 10;
  int weight_bits = 0;

  int exponent() const { return 61 - clip_exponent - weight_bits; }
  float clip() const;                                                           // 2^clip_exponent
  std::uint64_t weight_max() const { return std::uint64_t{1} << weight_bits; }  // of all contributions together
  friend bool operator==(const Grid&, const Grid&) = default;
};

inline constexpr int kClipExponentMin = -30;   // below it values would fall under the server's residual grid
inline constexpr int kGridExponentFloor = 10;  // the coarsest grid: 2^-10 of a value of one sample

// weight_sum_max: the summed samples of everybody whose update could still be accepted. An Error (bad_input) when the
// grid would be coarser than 2^-10 steps of one sample (weights and clip too large together).
Result<Grid> make_grid(int clip_exponent, std::uint64_t weight_sum_max);

// The same bounds for a grid that was stored.
bool is_valid(const Grid& grid);

}  // namespace gleaner
