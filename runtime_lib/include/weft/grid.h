// A thread's place in the grid, vectors of elements, and the shared memory of a block: what all other device headers
// stand on. Compiled by nvcc, or by a plain C++ compiler over the emulation that tests use.
#pragma once
#if !defined(__CUDACC__)
#include <cuda_runtime.h>
#endif

#include <cstdint>

#include "weft/device_macros.h"

namespace weft {

// Numbers in the whole grid, and how many there are: loops take every so-manieth element or row, so any grid is right.

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

/// What the steps of a loop over chunks keep there, one step after another: with a barrier of the block in between.
/// The largest is a tile that is transposed, of 8-byte elements.
inline constexpr int kStepRoom = 32 * 33 * 8;

/// From byte `first` on, a multiple of 16.
template <class T>
WEFT_DEVICE T* step_room(int first) {
  return reinterpret_cast<T*>(shared<unsigned char, kStepRoom, -5>() + first);
}

}  // namespace weft
