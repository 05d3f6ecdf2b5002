// The headers of CUDA's toolkit and of the libraries that the runtime opens, and the files that hold those libraries.
// Nothing else includes them, so that only this file needs to adapt to a toolkit with other names.
#pragma once
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <nccl.h>

namespace weft {

inline constexpr const char* kNcclFile = "libnccl.so.2";
inline constexpr const char* kCublasLtFile = "libcublasLt.so.13";

}  // namespace weft
