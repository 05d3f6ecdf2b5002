#include "launch.h"

namespace weft {

void check_cuda(cudaError_t error, const char* what) {
  switch (error) {
    case cudaSuccess:
      return;
    case cudaErrorMemoryAllocation:
      fail(kEnvironment, "%s: the device has not enough memory", what);
    case cudaErrorNoDevice:
      fail(kEnvironment, "no CUDA device: the program was compiled for cuda");
    case cudaErrorInsufficientDriver:
      fail(kEnvironment, "no CUDA device, or its driver is too old for CUDA %d.%d", CUDART_VERSION / 1000,
           CUDART_VERSION / 10 % 100);
    default:
      fail(kBug, "%s: %s", what, cudaGetErrorString(error));
  }
}

}  // namespace weft
