#pragma once
// Magnitudes as digits. The first is 11 bits wide and nearly logarithmic, so that the entries around a threshold are
// few whatever the scale; the later ones are at most 10 bits of what is left below it.

#include <cstdint>

#include "kernels/arithmetic.hpp"
#include "kernels/cuda/block.cuh"

namespace gleaner::cuda::GLEANER_EXECUTION {

struct FloatKey {
  using Value = float;
  using Bits = std::uint32_t;
  static constexpr bool kSkipsZero = false;

  GLEANER_DEVICE static std::uint32_t first_digit(Bits magnitude) { return magnitude >> 20U; }
  GLEANER_DEVICE static std::uint32_t width(std::uint32_t) { return 20; }
  GLEANER_DEVICE static Bits low(std::uint32_t digit) { return digit << 20U; }
  GLEANER_DEVICE static const Value* values(const Launches::Source& source) { return source.floats; }
};

// Below 64 the digit is the number; above, its exponent and the five bits after the leading one.
struct IntegerKey {
  using Value = std::int64_t;
  using Bits = std::uint64_t;
  static constexpr bool kSkipsZero = true;

  GLEANER_DEVICE static std::uint32_t first_digit(Bits magnitude) {
    if (magnitude < 64) return static_cast<std::uint32_t>(magnitude);
    const std::uint32_t dropped = bit_length(magnitude) - 6;
    return 32 * dropped + static_cast<std::uint32_t>(magnitude >> dropped);
  }
  GLEANER_DEVICE static std::uint32_t width(std::uint32_t digit) { return digit < 64 ? 0 : digit / 32 - 1; }
  GLEANER_DEVICE static Bits low(std::uint32_t digit) {
    return digit < 64 ? digit : Bits{digit % 32 + 32} << (digit / 32 - 1);
  }
  GLEANER_DEVICE static const Value* values(const Launches::Source& source) { return source.integers; }
};

// The interval that the threshold is known to lie in, cut by the next digit.
template <class Key>
struct Interval {
  typename Key::Bits low;
  std::uint32_t width;
  std::uint32_t shift;

  GLEANER_DEVICE explicit Interval(const RowState& state)
      : low(static_cast<typename Key::Bits>(state.low)),
        width(state.width),
        shift(state.width > 10 ? state.width - 10 : 0) {}
  GLEANER_DEVICE bool holds(typename Key::Bits magnitude) const {
    return magnitude >= low && ((magnitude - low) >> width) == 0;
  }
  GLEANER_DEVICE std::uint32_t digit(typename Key::Bits magnitude) const {
    return static_cast<std::uint32_t>((magnitude - low) >> shift);
  }
};

}  // namespace gleaner::cuda::GLEANER_EXECUTION
