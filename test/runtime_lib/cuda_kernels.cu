// Kernels of cuda_steps.cpp, as the compiler emits them.
#include "weft/device.h"

namespace cuda_kernels {

__global__ void scale(const float* x, float* y, int64_t count, float factor) {
  for (int64_t i = weft::thread(); i < count; i += weft::threads()) y[i] = factor * x[i];
}

/// One block a row: y = x - the row's mean, with sum, best and argmax by all lanes.
__global__ void rows(const float* x, float* mean, float* largest, int64_t* where, int64_t cols) {
  const float* row = x + int64_t(blockIdx.x) * cols;
  float sum = 0, best = -std::numeric_limits<float>::infinity();
  int64_t at = 0;
  for (int64_t c = threadIdx.x; c < cols; c += blockDim.x) {
    sum += row[c];
    if (row[c] > best) best = row[c], at = c;
  }
  sum = weft::block_sum(sum);
  weft::block_best<true, false>(best, at);
  if (threadIdx.x != 0) return;
  mean[blockIdx.x] = sum / float(cols);
  largest[blockIdx.x] = best;
  where[blockIdx.x] = at;
}

__global__ void count_up(const uint32_t* invocation, int64_t* sum) { *sum += *invocation + 1; }

__global__ void look_up(weft::IndexCheck look_indices, int64_t count, int64_t first, int64_t extent) {
  weft::IndexRange range;
  for (int64_t i = weft::thread(); i < count; i += weft::threads()) range.add(first + i);
  look_indices.demand(range, extent);
}

/// Sums a part of the windows that the peers have signalled, and stores it to all of them.
__global__ void all_reduce(const __grid_constant__ weft::Peers peers, weft::Signal ready, weft::Window<float> x,
                           weft::Window<float> y) {
  if (!peers.wait(ready)) return;
  const int64_t part = x.count / peers.size, first = peers.index * part;
  for (int64_t i = first + weft::thread(); i < first + part; i += weft::threads()) {
    float sum = 0;
    for (int p = 0; p < peers.size; ++p) sum += peers.at(p, x)[i];
    for (int p = 0; p < peers.size; ++p) peers.at(p, y)[i] = sum;
  }
  peers.barrier();
}

/// Each step takes what another stream gives, and sums what the other blocks have made of it. Without the last barrier
/// a block would run ahead, and without the flags the streams.
__global__ void sum_steps(const __grid_constant__ weft::Peers peers, weft::Signal given, weft::Signal taken, int steps,
                          int64_t count, const float* from, float* doubled, float* sum) {
  for (int step = 0; step < steps; ++step) {
    if (!peers.wait(given, step)) return;
    for (int64_t i = weft::thread(); i < count; i += weft::threads()) doubled[i] = 2 * from[i];
    if (!peers.block_barrier()) return;
    if (blockIdx.x == 0) peers.signal(taken, step);
    for (int64_t i = weft::thread(); i < count; i += weft::threads())
      sum[i] = (step == 0 ? 0 : sum[i]) + doubled[count - 1 - i];
    if (!peers.block_barrier()) return;
  }
}

}  // namespace cuda_kernels
