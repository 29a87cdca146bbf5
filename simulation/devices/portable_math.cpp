#include "simulation/devices/portable_math.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "common/check.hpp"

namespace gleaner::simulation {
namespace {

// ln 2 in two parts; the first has zeros at its end, so that multiples of it by an exponent are exact.
constexpr double kLn2High = 0x1.62e42fee00000p-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kLog2e = 0x1.71547652b82fep+0;

constexpr int kMantissaBits = 52;
constexpr std::int64_t kBias = 1023;

double power_of_two(std::int64_t exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + kBias) << kMantissaBits);
}

}  // namespace

double portable_exp(double x) {
  x = std::clamp(x, -700.0, 700.0);
  const auto k = static_cast<std::int64_t>(x * kLog2e + (x < 0.0 ? -0.5 : 0.5));
  const auto whole = static_cast<double>(k);
  const double r = (x - whole * kLn2High) - whole * kLn2Low;  // at most ln(2) / 2 and a little
  // The series up to r^14 / 14!, from its end.
  double sum = 1.0;
  for (int n = 14; n > 0; --n) sum = 1.0 + sum * (r / n);
  return sum * power_of_two(k);
}

double portable_log(double x) {
  GLEANER_CHECK(x > 0.0);
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<std::int64_t>(bits >> kMantissaBits) - kBias;
  double mantissa = std::bit_cast<double>((bits & ((1ULL << kMantissaBits) - 1)) | (1023ULL << kMantissaBits));
  if (mantissa > 0x1.6a09e667f3bcdp+0) {  // the root of 2: from there on, towards 1 from below
    mantissa *= 0.5;
    ++exponent;
  }
  // log(m) = 2 artanh(s), s = (m - 1) / (m + 1), |s| at most 0.172; the series up to s^23.
  const double s = (mantissa - 1.0) / (mantissa + 1.0);
  const double square = s * s;
  double sum = 0.0;
  for (int n = 23; n > 0; n -= 2) sum = sum * square + 1.0 / n;
  const auto whole = static_cast<double>(exponent);
  return whole * kLn2High + (2.0 * s * sum + whole * kLn2Low);
}

double portable_normal(Random& random) {
  for (;;) {
    const double u = 2.0 * random.uniform() - 1.0;
    const double v = 2.0 * random.uniform() - 1.0;
    const double square = u * u + v * v;
    if (square > 0x1.0p-1000 && square < 1.0) return u * std::sqrt(-2.0 * portable_log(square) / square);
  }
}

double portable_exponential(Random& random) { return -portable_log(1.0 - random.uniform()); }

}  // namespace gleaner::simulation
