#include "weft/device.h"

namespace emulated {

constexpr int64_t rows = 8, depth = 32, cols = 48, part = depth / 2;

// One warp a row: the row minus its mean.
__global__ void normalise(const float* x, float* y) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float value = x[row * depth + threadIdx.x];
    y[row * depth + threadIdx.x] = value - weft::block_sum(value) / float(depth);
  }
}

__global__ void take_columns(const float* x, float* mine, int64_t rank) {
  for (int64_t i = weft::thread(); i < rows * part; i += weft::threads())
    mine[i] = x[i / part * depth + rank * part + i % part];
}

__global__ void make_weights(float* w, float* bias, int64_t rank) {
  for (int64_t i = weft::thread(); i < part * cols; i += weft::threads())
    w[i] = float((rank * part * cols + i) * 7 % 11 - 5) / 16;
  for (int64_t i = weft::thread(); i < cols; i += weft::threads()) bias[i] = float(i) / 8;
}

// The sum over tp of each chunk, once all ranks have theirs; every rank stores its half everywhere.
__global__ void sum_over_tp(const __grid_constant__ weft::Peers tp, const __grid_constant__ weft::Signal done,
                            weft::Window<float> partial, weft::Window<float> fused) {
  constexpr int64_t chunk_rows = rows / 4, half = chunk_rows / 2;
  for (int chunk = 0; chunk < 4; ++chunk) {
    if (!tp.wait(done, chunk)) return;
    const int64_t first = (chunk * chunk_rows + tp.index * half) * cols;
    for (int64_t i = weft::thread(); i < half * cols; i += weft::threads()) {
      float sum = 0;
      for (int p = 0; p < tp.size; ++p) sum += tp.at(p, partial)[first + i];
      for (int p = 0; p < tp.size; ++p) tp.at(p, fused)[first + i] = sum;
    }
  }
  tp.barrier();
}

}  // namespace emulated
