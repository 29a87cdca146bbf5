#pragma once
// What a selection's driver (select.cpp) asks of the vector code (scan.cpp): a pass over a vector that collects the
// entries above a bound. Everything else that a selection promises is found on the way.

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/arithmetic.hpp"

namespace gleaner::cpu {

// How the vector to select from comes about: as it stands, formed += update, or formed = update - tracked.
enum class Form { as_is, accumulate, subtract };

// Candidates, ascending by index; the driver owns the memory and sees to it that there is room.
template <class T>
struct Candidates {
  std::uint32_t* indices = nullptr;
  T* stored = nullptr;  // a float itself, of an integer its magnitude
  std::size_t count = 0;
  std::size_t capacity = 0;  // both arrays have kCandidateSlack entries more
};
constexpr std::size_t kCandidateSlack = 64;

// A scan stops before a block for which there may not be room, so that the driver can prune and go on.
constexpr std::size_t kScanBlock = kNormBlock;

struct FloatScan {
  Form form = Form::as_is;
  const float* x = nullptr;  // as it stands, or as it is after the scan
  float* formed = nullptr;   // the same memory when the scan forms it
  const float* update = nullptr;
  const float* tracked = nullptr;
  std::size_t next = 0;  // the first entry not scanned yet, a multiple of kScanBlock, or end
  std::size_t end = 0;
  std::int32_t above = 0;  // magnitudes above this one become candidates; -1: all
  Candidates<float> found;
  double* block_norms = nullptr;  // squared norms by block of the whole vector; null: not wanted
  std::uint32_t most = 0;         // the largest magnitude so far
  std::uint64_t non_finite = std::numeric_limits<std::uint64_t>::max();  // the first so far
};
void scan(FloatScan& scan);

struct IntegerScan {
  const std::int64_t* x = nullptr;
  std::size_t next = 0;
  std::size_t end = 0;
  std::uint64_t above = 0;
  Candidates<std::uint64_t> found;
  std::uint64_t most = 0;
};
void scan(IntegerScan& scan);

// Keeps, in place and in order, what is larger than the threshold, and what equals it up to the index tie_limit.
void keep_reaching(Candidates<float>& candidates, std::uint32_t threshold, std::uint32_t tie_limit);
void keep_reaching(Candidates<std::uint64_t>& candidates, std::uint64_t threshold, std::uint32_t tie_limit);

}  // namespace gleaner::cpu
