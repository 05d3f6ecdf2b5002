// Markers of functions that kernels call, for each compiler: nvcc, or a plain C++ compiler, which compiles host
// programs and the emulation that tests use. Other differences of device code are in weft/grid.h.
#pragma once

#if defined(__CUDACC__)
#define WEFT_DEVICE __device__ __forceinline__
#define WEFT_UNROLL _Pragma("unroll")
/// For a loop over data in memory, which would take registers if it were unrolled.
#define WEFT_KEEP_LOOP _Pragma("unroll 1")
/// Marks functions that kernels of any target may call.
#define WEFT_HD __host__ __device__ __forceinline__
/// nvcc moves a struct that is copied whole 16 bytes at once.
#define WEFT_COPIED_BY_MEMBER(type)
#else
#define WEFT_DEVICE inline
#define WEFT_UNROLL
#define WEFT_KEEP_LOOP
#define WEFT_HD inline
/// For g++ a struct that is copied whole keeps the loop around it from being vectorised.
#define WEFT_COPIED_BY_MEMBER(type)    \
  type(const type&) = default;         \
  type& operator=(const type& other) { \
    bits = other.bits;                 \
    return *this;                      \
  }
#endif
