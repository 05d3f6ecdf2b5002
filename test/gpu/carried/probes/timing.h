// Times of work on a stream, by events.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  exit(6);
}

/// The best milliseconds of `repeats` after one that does not count.
template <class Work>
float best_ms(int repeats, Work&& work) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "an event");
  check(cudaEventCreate(&end), "an event");
  float best = 1e30f;
  for (int i = 0; i <= repeats; ++i) {
    check(cudaEventRecord(begin), "an event");
    work();
    check(cudaEventRecord(end), "an event");
    check(cudaEventSynchronize(end), "the work");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "a time");
    if (i > 0) best = std::min(best, ms);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return best;
}
