// Errors of the CUDA runtime, and launches. Only this file depends on how the emulation of tests starts a kernel.
#pragma once
#include "failure.h"
#include "toolkit.h"
#include "weft/cuda.h"

namespace weft {

/// Throws if a call failed: exit 6 if the machine lacks something, else 70.
void check_cuda(cudaError_t error, const char* what);

#if !defined(WEFT_EMULATE)
/// Throws (environment) if the device cannot hold all blocks of all ranks that share it at once.
void check_resident(const void* kernel, Grid grid, int sharers);
#endif

/// Resident: all blocks run at the same time, also those of the `sharers` ranks that share the device; 0: they need
/// not. It is not a cooperative launch: such kernels of several ranks on one device may run in sequence, but they wait
/// for each other.
inline void launch_kernel(cudaStream_t stream, const KernelEntry& kernel, Grid grid, void** arguments,
                          int sharers = 0) {
#if defined(WEFT_EMULATE)
  const cudaError_t error = emulation::launch(
      {kernel.address, dim3(grid.blocks), dim3(grid.threads), 0, sharers > 0, kernel.bind(kernel.address, arguments)},
      stream);
#else
  if (sharers > 0) check_resident(kernel.address, grid, sharers);
  const cudaError_t error =
      cudaLaunchKernel(kernel.address, dim3(grid.blocks), dim3(grid.threads), arguments, 0, stream);
#endif
  check_cuda(error, "the launch of a kernel");
}

/// The same with the arguments as they are.
template <class... P, class... A>
void launch_kernel(cudaStream_t stream, void (*kernel)(P...), Grid grid, A... arguments) {
  detail::with_arguments([&](const KernelEntry& k, void** at) { launch_kernel(stream, k, grid, at); }, kernel,
                         arguments...);
}

}  // namespace weft
