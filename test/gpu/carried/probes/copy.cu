// Prints what the device's memory gives, reads and writes counted, and what a launch costs, as one JSON object.
#include "timing.h"

__global__ void copy_words(const float4* from, float4* to, size_t count) {
  const size_t stride = size_t(gridDim.x) * blockDim.x;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) to[i] = from[i];
}
__global__ void nothing() {}

int main() {
  constexpr size_t kBytes = size_t{1} << 30;
  constexpr int kLaunches = 1000;
  cudaDeviceProp device;
  check(cudaGetDeviceProperties(&device, 0), "the device");
  float4 *from = nullptr, *to = nullptr;
  check(cudaMalloc(&from, kBytes), "memory");
  check(cudaMalloc(&to, kBytes), "memory");
  check(cudaMemset(from, 1, kBytes), "memory");
  const unsigned blocks = unsigned(device.multiProcessorCount) * 16;
  const float kernel = best_ms(10, [&] { copy_words<<<blocks, 256>>>(from, to, kBytes / sizeof(float4)); });
  const float library = best_ms(10, [&] { cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice, nullptr); });
  const float launches = best_ms(3, [&] {
    for (int i = 0; i < kLaunches; ++i) nothing<<<1, 32>>>();
  });
  check(cudaGetLastError(), "a launch");
  const double gigabytes = 2e-9 * double(kBytes);
  printf("{\"copy_kernel_gb_s\": %.1f, \"copy_library_gb_s\": %.1f, \"launch_us\": %.2f}\n",
         gigabytes / (kernel * 1e-3), gigabytes / (library * 1e-3), launches * 1e3 / kLaunches);
}
