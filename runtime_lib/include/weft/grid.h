// The base of all other device headers, and all use of device features beyond C++. It has thread indices, vectors of
// elements, shared memory, shuffles of lanes and words shared by ranks. Compiled by nvcc, or by a plain C++ compiler
// over the emulation that tests use.
#pragma once
#if !defined(__CUDACC__)
#include <cuda_runtime.h>
#endif

#include <cstdint>
#include <type_traits>

#include "weft/device_macros.h"

namespace weft {

// Indices in the whole grid, and their number: loops have this number as stride, so any grid is correct.

WEFT_DEVICE int64_t thread() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
WEFT_DEVICE int64_t threads() { return int64_t(gridDim.x) * blockDim.x; }
WEFT_DEVICE int64_t warp() { return thread() / 32; }
WEFT_DEVICE int64_t warps() { return threads() / 32; }
WEFT_DEVICE int lane() { return int(threadIdx.x) % 32; }

/// Neighbouring elements that are moved at once; their address is a multiple of their size.
template <class T, int N>
struct alignas(sizeof(T) * N) Vector {
  T elements[N];
  WEFT_DEVICE T& operator[](int64_t i) { return elements[i]; }
  WEFT_DEVICE const T& operator[](int64_t i) const { return elements[i]; }
};
template <int N, class T>
WEFT_DEVICE Vector<T, N> load(const T* from) {
  return *reinterpret_cast<const Vector<T, N>*>(from);
}
template <class T, int N>
WEFT_DEVICE void store(T* to, const Vector<T, N>& vector) {
  *reinterpret_cast<Vector<T, N>*>(to) = vector;
}

/// N elements shared by the threads of a block: one allocation for each Site (and type) in a kernel. Emitted kernels
/// number their sites from 0; the functions below use negative ones.
template <class T, int N, int Site>
WEFT_DEVICE T* shared() {
#if defined(__CUDACC__)
  __shared__ alignas(32) unsigned char memory[N * sizeof(T)];
  return reinterpret_cast<T*>(memory);
#else
  return emulation::shared_array<T, N, Site>();
#endif
}

/// Bytes of shared memory that the steps of a loop over chunks use in turn, with a barrier of the block between them.
/// The largest use is a transposed tile of 8-byte elements.
inline constexpr int kStepRoom = 32 * 33 * 8;

/// That memory from byte `first` on, a multiple of 16.
template <class T>
WEFT_DEVICE T* step_room(int first) {
  return reinterpret_cast<T*>(shared<unsigned char, kStepRoom, -5>() + first);
}

// The value of another lane of the warp. Shuffles move 4 or 8 bytes: smaller types are converted to int.

namespace detail {
template <class T>
using Carrier = std::conditional_t<(sizeof(T) < 4), int, T>;
}

/// The value of the lane whose number differs in the bit `distance`.
template <class T>
WEFT_DEVICE T lane_across(T value, int distance) {
  return T(__shfl_xor_sync(0xffffffffu, detail::Carrier<T>(value), distance));
}
/// The value of the lane `distance` before this one.
template <class T>
WEFT_DEVICE T lane_before(T value, int distance) {
  return T(__shfl_up_sync(0xffffffffu, detail::Carrier<T>(value), unsigned(distance)));
}

// Release and acquire over the whole machine: flags lie in windows of other devices, faults in host memory.

#if defined(__CUDACC__)
WEFT_DEVICE uint32_t load_acquire(const uint32_t* word) {
  uint32_t value;
  asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
WEFT_DEVICE void store_release(uint32_t* word, uint32_t value) {
  asm volatile("st.release.sys.u32 [%0], %1;" : : "l"(word), "r"(value) : "memory");
}
/// For the blocks of one device: writes of all blocks that added before are visible.
WEFT_DEVICE uint32_t add_acquire_release(uint32_t* word, uint32_t value) {
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(word), "r"(value) : "memory");
  return before;
}
WEFT_DEVICE uint64_t clock_ns() {
  uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}
WEFT_DEVICE void pause() { __nanosleep(64); }
#else
using emulation::add_acquire_release;
using emulation::clock_ns;
using emulation::load_acquire;
using emulation::pause;
using emulation::store_release;
#endif

}  // namespace weft
