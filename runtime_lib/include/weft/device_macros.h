// How functions that kernels call are marked, for each compiler that reads them: nvcc, or a plain C++ compiler, which
// compiles host programs and the emulation that tests use. What differs in device code besides is in weft/grid.h.
#pragma once

#if defined(__CUDACC__)
#define WEFT_DEVICE __device__ __forceinline__
#define WEFT_UNROLL _Pragma("unroll")
/// A loop over what lies in memory anyway: unrolled, it would take registers.
#define WEFT_KEEP_LOOP _Pragma("unroll 1")
/// Marks what kernels may call, on any target.
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
