// Prints whether two resident kernels on two streams of one device run at the same time, as one JSON object: ranks that
// share a GPU need that where fused kernels wait for each other.
#include "timing.h"

__global__ void meet(unsigned* mine, const volatile unsigned* other, unsigned* met) {
  constexpr int kPolls = 1 << 20;
  atomicExch(mine, 1u);
  for (int i = 0; i < kPolls; ++i) {
    if (*other != 0) {
      *met = 1;
      return;
    }
    __nanosleep(200);
  }
}

int main() {
  unsigned* words = nullptr;
  check(cudaMalloc(&words, 4 * sizeof(unsigned)), "memory");
  check(cudaMemset(words, 0, 4 * sizeof(unsigned)), "memory");
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  for (int s = 0; s < 2; ++s) {
    unsigned *mine = words + s, *other = words + 1 - s, *met = words + 2 + s;
    void* arguments[] = {&mine, &other, &met};
    check(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(meet), dim3(1), dim3(1), arguments, 0, streams[s]),
          "a launch");
  }
  check(cudaDeviceSynchronize(), "the kernels");
  unsigned met[2] = {};
  check(cudaMemcpy(met, words + 2, sizeof met, cudaMemcpyDeviceToHost), "a copy");
  printf("{\"resident_kernels_concurrent\": %s}\n", met[0] + met[1] == 2 ? "true" : "false");
}
