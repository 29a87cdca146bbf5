#pragma once
// How a kernel is written: with the names below, in namespace gleaner::cuda::GLEANER_EXECUTION. Under nvcc they are
// CUDA's own; a plain C++ compiler gets emulation/, which runs the same source on the CPU and finds its mistakes. The
// two live in namespaces of their own, so that one program can hold both. Grids and blocks have one dimension. C++20.

#ifndef __CUDACC__
#include "kernels/cuda/emulation/thread.hpp"
#else

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#define GLEANER_EXECUTION device
#define GLEANER_KERNEL __global__ void
#define GLEANER_DEVICE __device__ __forceinline__
#define GLEANER_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)
#define GLEANER_UNROLL _Pragma("unroll")
#define GLEANER_RESTRICT __restrict__
#define GLEANER_SHARED(type, name, count) __shared__ type name[count]
#define GLEANER_DYNAMIC_SHARED(type, name)                               \
  extern __shared__ __align__(16) unsigned char gleaner_dynamic_bytes[]; \
  type* const name = reinterpret_cast<type*>(gleaner_dynamic_bytes)

namespace gleaner::cuda::device {

constexpr unsigned kWholeWarp = 0xffffffffU;

GLEANER_DEVICE unsigned thread_index() { return threadIdx.x; }
GLEANER_DEVICE unsigned block_index() { return blockIdx.x; }
GLEANER_DEVICE unsigned thread_count() { return blockDim.x; }
GLEANER_DEVICE unsigned block_count() { return gridDim.x; }

GLEANER_DEVICE void sync_block() { __syncthreads(); }
GLEANER_DEVICE void sync_warp(unsigned mask = kWholeWarp) { __syncwarp(mask); }
GLEANER_DEVICE unsigned ballot(unsigned mask, bool vote) { return __ballot_sync(mask, vote); }
GLEANER_DEVICE bool any(unsigned mask, bool vote) { return __any_sync(mask, vote) != 0; }
GLEANER_DEVICE bool all(unsigned mask, bool vote) { return __all_sync(mask, vote) != 0; }
GLEANER_DEVICE unsigned match(unsigned mask, unsigned value) { return __match_any_sync(mask, value); }
template <class T>
GLEANER_DEVICE T shuffle(unsigned mask, T value, unsigned from) {
  return __shfl_sync(mask, value, static_cast<int>(from));
}
template <class T>
GLEANER_DEVICE T shuffle_up(unsigned mask, T value, unsigned by) {
  return __shfl_up_sync(mask, value, by);
}
template <class T>
GLEANER_DEVICE T shuffle_down(unsigned mask, T value, unsigned by) {
  return __shfl_down_sync(mask, value, by);
}
template <class T>
GLEANER_DEVICE T shuffle_xor(unsigned mask, T value, unsigned by) {
  return __shfl_xor_sync(mask, value, static_cast<int>(by));
}

// One instruction from sm_80 on.
#if __CUDA_ARCH__ >= 800
GLEANER_DEVICE unsigned warp_sum(unsigned mask, unsigned value) { return __reduce_add_sync(mask, value); }
GLEANER_DEVICE unsigned warp_min(unsigned mask, unsigned value) { return __reduce_min_sync(mask, value); }
GLEANER_DEVICE unsigned warp_max(unsigned mask, unsigned value) { return __reduce_max_sync(mask, value); }
#else
template <class Combine>
GLEANER_DEVICE unsigned warp_fold(unsigned mask, unsigned value, Combine combine) {
  unsigned folded = value;
  for (unsigned lanes = mask; lanes != 0; lanes &= lanes - 1) {
    const unsigned other = __shfl_sync(mask, value, __ffs(static_cast<int>(lanes)) - 1);
    folded = lanes == mask ? other : combine(folded, other);
  }
  return folded;
}
GLEANER_DEVICE unsigned warp_sum(unsigned mask, unsigned value) {
  return warp_fold(mask, value, [](unsigned a, unsigned b) { return a + b; });
}
GLEANER_DEVICE unsigned warp_min(unsigned mask, unsigned value) {
  return warp_fold(mask, value, [](unsigned a, unsigned b) { return a < b ? a : b; });
}
GLEANER_DEVICE unsigned warp_max(unsigned mask, unsigned value) {
  return warp_fold(mask, value, [](unsigned a, unsigned b) { return a > b ? a : b; });
}
#endif

// CUDA's atomics know 64 bits as unsigned long long; the sum of two's complement is the same for both signs.
template <class T>
struct AtomicType {
  using type = std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned>;
  static_assert(std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
};
template <class T>
using Atomic = typename AtomicType<T>::type;

template <class T>
GLEANER_DEVICE T atomic_add(T* at, T value) {
  return static_cast<T>(atomicAdd(reinterpret_cast<Atomic<T>*>(at), static_cast<Atomic<T>>(value)));
}
template <class T>
GLEANER_DEVICE T atomic_min(T* at, T value) {
  static_assert(std::is_unsigned_v<T>);
  return static_cast<T>(atomicMin(reinterpret_cast<Atomic<T>*>(at), static_cast<Atomic<T>>(value)));
}
template <class T>
GLEANER_DEVICE T atomic_max(T* at, T value) {
  static_assert(std::is_unsigned_v<T>);
  return static_cast<T>(atomicMax(reinterpret_cast<Atomic<T>*>(at), static_cast<Atomic<T>>(value)));
}
template <class T>
GLEANER_DEVICE T atomic_exchange(T* at, T value) {
  return static_cast<T>(atomicExch(reinterpret_cast<Atomic<T>*>(at), static_cast<Atomic<T>>(value)));
}
template <class T>
GLEANER_DEVICE T atomic_compare_exchange(T* at, T expected, T value) {
  return static_cast<T>(
      atomicCAS(reinterpret_cast<Atomic<T>*>(at), static_cast<Atomic<T>>(expected), static_cast<Atomic<T>>(value)));
}

GLEANER_DEVICE std::uint32_t count_bits(unsigned x) { return static_cast<std::uint32_t>(__popc(x)); }
GLEANER_DEVICE std::uint32_t lowest_bit(unsigned x) {
  return static_cast<std::uint32_t>(__ffs(static_cast<int>(x)) - 1);
}
GLEANER_DEVICE std::uint32_t bit_length(std::uint64_t x) {
  return 64U - static_cast<std::uint32_t>(__clzll(static_cast<long long>(x)));
}
GLEANER_DEVICE std::int64_t round_to_integer(double x) { return __double2ll_rn(x); }
GLEANER_DEVICE float exponential(float x) { return expf(x); }
GLEANER_DEVICE double logarithm(double x) { return log(x); }

// The square of a float is exact in double, so that fusing rounds once, as the CPU does.
GLEANER_DEVICE double square_and_add(float value, double sum) {
  const double wide = value;
  return __fma_rn(wide, wide, sum);
}

// Returns CUDA's code; a mistake inside of the kernel shows at a later call on the stream.
template <class... Parameters>
int launch(const char*, void* stream, unsigned blocks, unsigned threads, void (*kernel)(Parameters...),
           std::type_identity_t<Parameters>... arguments) {
  kernel<<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(arguments...);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace gleaner::cuda::device

#endif
