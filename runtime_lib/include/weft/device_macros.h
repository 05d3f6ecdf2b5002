// How device functions and their loops are marked, for nvcc and for a plain C++ compiler.
#pragma once

#if defined(__CUDACC__)
#define WEFT_DEVICE __device__ __forceinline__
#define WEFT_UNROLL _Pragma("unroll")
#else
#define WEFT_DEVICE inline
#define WEFT_UNROLL
#endif
