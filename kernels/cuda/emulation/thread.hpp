#pragma once
// What a kernel calls, for the fibers of machine.hpp. The same names with the same meaning as the CUDA half of
// execution.hpp; only that header includes this one.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>
#include <utility>

#include "kernels/cuda/emulation/machine.hpp"

#define GLEANER_EXECUTION emulated
#define GLEANER_KERNEL inline void
#define GLEANER_DEVICE inline
#define GLEANER_BOUNDS(threads, blocks)
#define GLEANER_UNROLL
#define GLEANER_RESTRICT
#define GLEANER_SHARED(type, name, count)    \
  static char name##_key = 0;                \
  auto& name = *static_cast<type(*)[count]>( \
      ::gleaner::cuda::emulation::Machine::current().shared(&name##_key, sizeof(type) * (count)))
#define GLEANER_DYNAMIC_SHARED(type, name) \
  auto* const name = reinterpret_cast<type*>(::gleaner::cuda::emulation::Machine::current().dynamic_shared())

namespace gleaner::cuda::emulated {

using emulation::Machine;
using emulation::WarpExchange;
using Place = std::source_location;

constexpr unsigned kWholeWarp = 0xffffffffU;

inline unsigned thread_index() { return Machine::current().thread(); }
inline unsigned block_index() { return Machine::current().block(); }
inline unsigned thread_count() { return Machine::current().grid().threads; }
inline unsigned block_count() { return Machine::current().grid().blocks; }

inline void sync_block(const Place& where = Place::current()) { Machine::current().sync_block(where); }

template <class T>
std::uint64_t packed(T value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
T unpacked(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// One of these a kind of operation; machine.cpp calls it once for all lanes of the mask.
template <class Each>
void for_lanes(unsigned mask, Each each) {
  for (unsigned lane = 0; lane < emulation::kWarpSize; ++lane) {
    if ((mask >> lane & 1U) != 0) each(lane);
  }
}

inline void evaluate_nothing(WarpExchange&, unsigned) {}

inline void evaluate_ballot(WarpExchange& exchange, unsigned mask) {
  unsigned votes = 0;
  for_lanes(mask, [&](unsigned lane) { votes |= static_cast<unsigned>(exchange.value[lane] & 1U) << lane; });
  for_lanes(mask, [&](unsigned lane) { exchange.result[lane] = votes; });
}

inline void evaluate_match(WarpExchange& exchange, unsigned mask) {
  for_lanes(mask, [&](unsigned lane) {
    unsigned equal = 0;
    for_lanes(mask, [&](unsigned other) {
      equal |= static_cast<unsigned>(exchange.value[other] == exchange.value[lane]) << other;
    });
    exchange.result[lane] = equal;
  });
}

// The lane that is read may not be in the mask: then its value is undefined, and here an error.
template <class Source>
void evaluate_move(WarpExchange& exchange, unsigned mask, Source source) {
  for_lanes(mask, [&](unsigned lane) {
    const unsigned from = source(lane, exchange.argument[lane]);
    if ((mask >> from & 1U) == 0)
      Machine::current().fault_in_operation("reads a lane that is not in the mask of its shuffle");
    exchange.result[lane] = exchange.value[from];
  });
}
inline void evaluate_shuffle(WarpExchange& exchange, unsigned mask) {
  evaluate_move(exchange, mask, [](unsigned, unsigned from) { return from % emulation::kWarpSize; });
}
inline void evaluate_up(WarpExchange& exchange, unsigned mask) {
  evaluate_move(exchange, mask, [](unsigned lane, unsigned by) { return lane >= by ? lane - by : lane; });
}
inline void evaluate_down(WarpExchange& exchange, unsigned mask) {
  evaluate_move(exchange, mask,
                [](unsigned lane, unsigned by) { return lane + by < emulation::kWarpSize ? lane + by : lane; });
}
inline void evaluate_xor(WarpExchange& exchange, unsigned mask) {
  evaluate_move(exchange, mask, [](unsigned lane, unsigned by) { return (lane ^ by) % emulation::kWarpSize; });
}

template <class Combine>
void evaluate_fold(WarpExchange& exchange, unsigned mask, Combine combine) {
  const auto first = static_cast<unsigned>(std::countr_zero(mask));
  auto folded = unpacked<unsigned>(exchange.value[first]);
  for_lanes(mask & (mask - 1),
            [&](unsigned lane) { folded = combine(folded, unpacked<unsigned>(exchange.value[lane])); });
  for_lanes(mask, [&](unsigned lane) { exchange.result[lane] = folded; });
}
inline void evaluate_sum(WarpExchange& exchange, unsigned mask) {
  evaluate_fold(exchange, mask, [](unsigned a, unsigned b) { return a + b; });
}
inline void evaluate_min(WarpExchange& exchange, unsigned mask) {
  evaluate_fold(exchange, mask, [](unsigned a, unsigned b) { return std::min(a, b); });
}
inline void evaluate_max(WarpExchange& exchange, unsigned mask) {
  evaluate_fold(exchange, mask, [](unsigned a, unsigned b) { return std::max(a, b); });
}

inline void sync_warp(unsigned mask = kWholeWarp, const Place& where = Place::current()) {
  Machine::current().meet(mask, evaluate_nothing, 0, 0, where);
}
inline unsigned ballot(unsigned mask, bool vote, const Place& where = Place::current()) {
  return static_cast<unsigned>(Machine::current().meet(mask, evaluate_ballot, vote ? 1U : 0U, 0, where));
}
inline bool any(unsigned mask, bool vote, const Place& where = Place::current()) {
  return ballot(mask, vote, where) != 0;
}
inline bool all(unsigned mask, bool vote, const Place& where = Place::current()) {
  return ballot(mask, vote, where) == mask;
}
inline unsigned match(unsigned mask, unsigned value, const Place& where = Place::current()) {
  return static_cast<unsigned>(Machine::current().meet(mask, evaluate_match, value, 0, where));
}
template <class T>
T shuffle(unsigned mask, T value, unsigned from, const Place& where = Place::current()) {
  return unpacked<T>(Machine::current().meet(mask, evaluate_shuffle, packed(value), from, where));
}
template <class T>
T shuffle_up(unsigned mask, T value, unsigned by, const Place& where = Place::current()) {
  return unpacked<T>(Machine::current().meet(mask, evaluate_up, packed(value), by, where));
}
template <class T>
T shuffle_down(unsigned mask, T value, unsigned by, const Place& where = Place::current()) {
  return unpacked<T>(Machine::current().meet(mask, evaluate_down, packed(value), by, where));
}
template <class T>
T shuffle_xor(unsigned mask, T value, unsigned by, const Place& where = Place::current()) {
  return unpacked<T>(Machine::current().meet(mask, evaluate_xor, packed(value), by, where));
}
inline unsigned warp_sum(unsigned mask, unsigned value, const Place& where = Place::current()) {
  return static_cast<unsigned>(Machine::current().meet(mask, evaluate_sum, value, 0, where));
}
inline unsigned warp_min(unsigned mask, unsigned value, const Place& where = Place::current()) {
  return static_cast<unsigned>(Machine::current().meet(mask, evaluate_min, value, 0, where));
}
inline unsigned warp_max(unsigned mask, unsigned value, const Place& where = Place::current()) {
  return static_cast<unsigned>(Machine::current().meet(mask, evaluate_max, value, 0, where));
}

// One fiber runs at a time, so that what follows the interruption is atomic.
template <class T>
T atomic_add(T* at, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  Machine::current().before_atomic();
  const T before = *at;
  *at = before + value;
  return before;
}
template <class T>
T atomic_min(T* at, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  Machine::current().before_atomic();
  const T before = *at;
  *at = std::min(before, value);
  return before;
}
template <class T>
T atomic_max(T* at, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  Machine::current().before_atomic();
  const T before = *at;
  *at = std::max(before, value);
  return before;
}
template <class T>
T atomic_exchange(T* at, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  Machine::current().before_atomic();
  return std::exchange(*at, value);
}
template <class T>
T atomic_compare_exchange(T* at, T expected, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  Machine::current().before_atomic();
  return *at == expected ? std::exchange(*at, value) : *at;
}

inline std::uint32_t count_bits(unsigned x) { return static_cast<std::uint32_t>(std::popcount(x)); }
inline std::uint32_t lowest_bit(unsigned x) { return static_cast<std::uint32_t>(std::countr_zero(x)); }
inline std::uint32_t bit_length(std::uint64_t x) { return static_cast<std::uint32_t>(std::bit_width(x)); }
inline std::int64_t round_to_integer(double x) { return std::llrint(x); }

inline float exponential(float x) { return std::exp(x); }
inline double logarithm(double x) { return std::log(x); }

inline double square_and_add(float value, double sum) {
  const double wide = value;
  return wide * wide + sum;
}

// A stream is one of these here, and done when launch() returns. The arguments are copied: a graph starts it later.
template <class... Parameters>
int launch(const char* name, void* stream, unsigned blocks, unsigned threads, void (*kernel)(Parameters...),
           std::type_identity_t<Parameters>... arguments) {
  const emulation::Grid grid = {.blocks = blocks, .threads = threads};
  return static_cast<emulation::Launcher*>(stream)->launch(name, grid, [=] { kernel(arguments...); });
}

}  // namespace gleaner::cuda::emulated
