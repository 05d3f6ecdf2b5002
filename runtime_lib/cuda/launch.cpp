// Turning CUDA errors into failures, and checking that a device has room for kernels that wait for each other.
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
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidKernelImage:
    case cudaErrorUnsupportedPtxVersion:
      fail(kEnvironment,
           "%s: %s: the program was not compiled for this GPU; --arch of weft compile names architectures", what,
           cudaGetErrorString(error));
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorECCUncorrectable:
      fail(kEnvironment, "%s: %s", what, cudaGetErrorString(error));
    case cudaErrorInsufficientDriver:
      fail(kEnvironment, "no CUDA device, or its driver is too old for CUDA %d.%d", CUDART_VERSION / 1000,
           CUDART_VERSION / 10 % 100);
    default:
      fail(kBug, "%s: %s", what, cudaGetErrorString(error));
  }
}

#if !defined(WEFT_EMULATE)
void check_resident(const void* kernel, Grid grid, int sharers) {
  int device = 0, processors = 0, blocks = 0;
  check_cuda(cudaGetDevice(&device), "the device");
  check_cuda(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "the device");
  check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, int(grid.threads), 0), "a kernel");
  if (int64_t{blocks} * processors < int64_t{grid.blocks} * sharers)
    fail(kEnvironment,
         "a kernel that waits for peers needs %u blocks at once, and %d rank%s share%s the device, which "
         "has room for %d",
         grid.blocks, sharers, sharers == 1 ? "" : "s", sharers == 1 ? "s" : "", blocks * processors);
}
#endif

}  // namespace weft
