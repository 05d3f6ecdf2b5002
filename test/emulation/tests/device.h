// Shared by the tests of the emulation: device arrays, launches, the program with the wrong kernels.
#pragma once
#include <string>
#include <vector>

#include "cuda_runtime.h"

struct Stream {
  cudaStream_t handle = nullptr;
  Stream() { cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking); }
  ~Stream() { cudaStreamSynchronize(handle), cudaStreamDestroy(handle); }
  Stream(const Stream&) = delete;
  void wait() const { cudaStreamSynchronize(handle); }
};

struct Event {
  cudaEvent_t handle = nullptr;
  Event() { cudaEventCreate(&handle); }
  ~Event() { cudaEventDestroy(handle); }
  Event(const Event&) = delete;
};

template <class T>
struct Buffer {
  T* at = nullptr;
  size_t count;
  explicit Buffer(size_t n) : count(n) { cudaMalloc(&at, n * sizeof(T)); }
  explicit Buffer(const std::vector<T>& values) : Buffer(values.size()) {
    cudaMemcpy(at, values.data(), count * sizeof(T), cudaMemcpyHostToDevice);
  }
  ~Buffer() { cudaFree(at); }
  Buffer(const Buffer&) = delete;
  std::vector<T> read() const {
    std::vector<T> out(count);
    cudaMemcpy(out.data(), at, count * sizeof(T), cudaMemcpyDeviceToHost);
    return out;
  }
};

template <class... P, class... A>
cudaError_t run(cudaStream_t stream, void (*kernel)(P...), dim3 grid, dim3 block, A... arguments) {
  const cudaLaunchConfig_t config{.gridDim = grid, .blockDim = block, .stream = stream};
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

template <class... P, class... A>
cudaError_t run_resident(cudaStream_t stream, void (*kernel)(P...), dim3 grid, dim3 block, A... arguments) {
  cudaLaunchAttribute cooperative{cudaLaunchAttributeCooperative, {1}};
  const cudaLaunchConfig_t config{
      .gridDim = grid, .blockDim = block, .stream = stream, .attrs = &cooperative, .numAttrs = 1};
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

inline std::vector<float> ramp(size_t n, float scale = 1) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = scale * float(i % 17) - 3 * scale;
  return out;
}
