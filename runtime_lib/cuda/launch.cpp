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

#if !defined(WEFT_EMULATE)
void check_resident(const void* kernel, Grid grid) {
  int device = 0, processors = 0, blocks = 0;
  check_cuda(cudaGetDevice(&device), "the device");
  check_cuda(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "the device");
  check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, int(grid.threads), 0), "a kernel");
  if (int64_t{blocks} * processors < int64_t{grid.blocks})
    fail(kEnvironment, "a kernel that waits for peers needs %u blocks at once; the device has room for %d", grid.blocks,
         blocks * processors);
}
#endif

}  // namespace weft
