// Programs with one mistake each: the tests run them as processes, since the emulation ends a process that does wrong.
// Exit 0: the results are right; 3: they are not.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>

#include "cublasLt.h"
#include "device.h"

using weft::emulation::shared_array;

namespace mistakes {

constexpr int kThreads = 128;

/// y[i] = x[i + 1], through shared memory.
template <bool barrier, int extra = 0>
__global__ void shift(const float* x, float* y) {
  float* const all = shared_array<float, kThreads, 0>();
  const unsigned t = threadIdx.x;
  all[t + extra] = x[t];
  if (barrier) __syncthreads();
  y[blockIdx.x * kThreads + t] = all[(t + 1) % kThreads];
}

__global__ void much_shared(float* y) { *y = *shared_array<float, 6000, 0>() + *shared_array<float, 7000, 0>(); }

__global__ void some_leave(float* y) {
  if (threadIdx.x == 70) return;
  __syncthreads();
  y[threadIdx.x] = 1;
}

__global__ void two_barriers(float* y) {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
  y[threadIdx.x] = 1;
}

__global__ void wrong_mask(float* y) {
  y[threadIdx.x] = __shfl_xor_sync(threadIdx.x % 32 < 8 ? 0xffffu : ~0u, 1.0f, 1);
}
__global__ void not_in_mask(float* y) { y[threadIdx.x] = __shfl_xor_sync(0xffu, 1.0f, 1); }

__global__ void beside(float* y, int n) {
  if (threadIdx.x == 0) y[n] = 1;
}

__global__ void deep_recursion(float* y, int depth) {
  volatile char stack[4096];
  stack[0] = char(depth);
  if (depth > 0) deep_recursion(y, depth - 1);
  y[0] = stack[0];
}

__global__ void fill(float* y, int n) {
  for (int i = int(blockIdx.x * blockDim.x + threadIdx.x); i < n; i += int(gridDim.x * blockDim.x)) y[i] = float(i);
}
__global__ void copy(const float* x, float* y, int n) {
  for (int i = int(blockIdx.x * blockDim.x + threadIdx.x); i < n; i += int(gridDim.x * blockDim.x)) y[i] = x[i];
}

template <bool barrier, int extra = 0>
int run_shift() {
  const std::vector<float> values = ramp(kThreads);
  const Buffer<float> x(values), y(8 * kThreads);
  const Stream stream;
  run(stream.handle, shift<barrier, extra>, 8, kThreads, x.at, y.at);
  stream.wait();
  const std::vector<float> got = y.read();
  for (size_t i = 0; i < got.size(); ++i)
    if (got[i] != values[(i + 1) % kThreads]) return 3;
  return 0;
}

template <class... A>
int run_one(void (*kernel)(A...), A... arguments) {
  const Stream stream;
  run(stream.handle, kernel, 4, kThreads, arguments...);
  return 0;
}

template <auto kernel>
int on_buffer() {
  const Buffer<float> y(kThreads);
  return run_one(kernel, y.at);
}

int run_beside() {
  const Buffer<float> y(100);
  return run_one(beside, y.at, 100);
}

int run_deep() {
  const Buffer<float> y(1);
  const Stream stream;
  run(stream.handle, deep_recursion, 1, 1, y.at, 400);
  return 0;
}

/// A reader on another stream; y is NaN again before each round.
template <bool wait>
int run_streams() {
  constexpr int kCount = 1000;
  const Buffer<float> y(kCount), z(kCount);
  const Stream a, b;
  const Event done;
  for (int round = 0; round < 20; ++round) {
    cudaMemsetAsync(y.at, 0xff, kCount * sizeof(float), a.handle);
    run(a.handle, fill, 4, 64, y.at, kCount);
    cudaEventRecord(done.handle, a.handle);
    if (wait) cudaStreamWaitEvent(b.handle, done.handle);
    run(b.handle, copy, 4, 64, y.at, z.at, kCount);
    a.wait(), b.wait();
    const std::vector<float> got = z.read();
    for (int i = 0; i < kCount; ++i)
      if (got[size_t(i)] != float(i)) return 3;
  }
  return 0;
}

/// Polls until the flag is set, and counts its looks.
__global__ void poll(const uint32_t* flag, uint32_t* looks) {
  while (weft::emulation::load_acquire(flag) == 0) {
    weft::emulation::add_acquire_release(looks, 1u);
    weft::emulation::pause();
  }
}

/// y = x * x, of two rows and columns.
void multiply(cudaStream_t stream, const float* x, float* y) {
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t layout;
  cublasLtCreate(&handle);
  cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 2, 2, 2);
  const float one = 1, zero = 0;
  cublasLtMatmul(handle, desc, &one, x, layout, x, layout, &zero, y, layout, y, layout, nullptr, nullptr, 0, stream);
  cudaStreamSynchronize(stream);
  cublasLtMatrixLayoutDestroy(layout), cublasLtMatmulDescDestroy(desc), cublasLtDestroy(handle);
}

/// Another host thread's kernel waits for an operation after a product.
template <bool is_known>
int run_product() {
  const Buffer<float> x(ramp(4)), y(4);
  const Buffer<uint32_t> words(std::vector<uint32_t>{0, 0});
  uint32_t *const flag = words.at, *const looks = words.at + 1;
  const Stream stream;
  if (is_known) multiply(stream.handle, x.at, y.at);
  std::thread other([&] {
    const Stream own;
    run(own.handle, poll, 1, 1, flag, looks);
  });
  while (weft::emulation::load_acquire(looks) < 2) weft::emulation::pause();
  multiply(stream.handle, x.at, y.at);
  weft::emulation::store_release(flag, 1u);
  other.join();
  return 0;
}

const struct {
  const char* name;
  int (*run)();
} kPrograms[] = {
    {"right_shift", run_shift<true>},      {"dropped_barrier", run_shift<false>},
    {"shared_index", run_shift<true, 1>},  {"much_shared", on_buffer<much_shared>},
    {"some_leave", on_buffer<some_leave>}, {"two_barriers", on_buffer<two_barriers>},
    {"wrong_mask", on_buffer<wrong_mask>}, {"not_in_mask", on_buffer<not_in_mask>},
    {"device_index", run_beside},          {"deep_recursion", run_deep},
    {"right_streams", run_streams<true>},  {"missing_wait", run_streams<false>},
    {"known_product", run_product<true>},  {"new_product", run_product<false>},
};

}  // namespace mistakes

int main(int argc, char** argv) {
  for (const auto& program : mistakes::kPrograms)
    if (argc == 2 && strcmp(program.name, argv[1]) == 0) return program.run();
  fprintf(stderr, "usage: emulation_programs NAME\n");
  return 2;
}
