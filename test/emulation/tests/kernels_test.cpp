// The kernel language: small kernels that are right.
#include <doctest/doctest.h>

#include "device.h"

using weft::emulation::knobs;
using weft::emulation::shared_array;

namespace {

__global__ void row_sums(const float* x, float* y, int cols) {
  float* const of_warps = shared_array<float, 32, 0>();
  float sum = 0;
  for (int c = int(threadIdx.x); c < cols; c += int(blockDim.x)) sum += x[int(blockIdx.x) * cols + c];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
  __syncthreads();
  float all = 0;
  for (unsigned w = 0; w < blockDim.x / 32; ++w) all += of_warps[w];
  if (threadIdx.x == 0) y[blockIdx.x] = all;
}

constexpr int kTile = 16;
__global__ void transpose(const float* x, float* y, int rows, int cols) {
  float* const tile = shared_array<float, kTile * kTile, 0>();
  const int r = int(blockIdx.y) * kTile, c = int(blockIdx.x) * kTile, tx = int(threadIdx.x), ty = int(threadIdx.y);
  tile[ty * kTile + tx] = x[(r + ty) * cols + c + tx];
  __syncthreads();
  y[(c + ty) * rows + r + tx] = tile[tx * kTile + ty];
}

__global__ void warp_functions(int* out) {
  const int lane = int(threadIdx.x);
  const unsigned half = lane < 16 ? 0xffffu : 0xffff0000u;
  int* const mine = out + lane * 8;
  mine[0] = __shfl_up_sync(~0u, lane, 3);
  mine[1] = __shfl_down_sync(~0u, lane, 5, 16);
  mine[2] = __shfl_sync(~0u, lane, 9, 8);
  mine[3] = int(__ballot_sync(~0u, lane % 3 == 0));
  // Halves of the warp each on their own, a different number of times.
  int sum = lane;
  for (int i = 0; i < (lane < 16 ? 1 : 3); ++i) sum += __shfl_xor_sync(half, sum, 1);
  mine[4] = sum;
  mine[5] = __any_sync(half, lane == 20);
  mine[6] = __all_sync(half, lane < 16);
  mine[7] = int(__shfl_xor_sync(~0u, int64_t{lane} << 32, 1) >> 32);
}

__global__ void counts(int* total, int* votes) {
  atomicAdd(total, 1);
  const bool odd = threadIdx.x % 2 == 1;
  const int any = __syncthreads_or(threadIdx.x == 5), all = __syncthreads_and(threadIdx.x < 5);
  const int how_many = __syncthreads_count(odd);
  if (threadIdx.x == 0) votes[blockIdx.x] = any * 1000 + all * 100 + how_many;
}

__global__ void poisoned(int* nan) {
  const float* const fresh = shared_array<float, 8, 3>();
  if (threadIdx.x < 8) nan[threadIdx.x] = fresh[threadIdx.x] != fresh[threadIdx.x];
}

}  // namespace

TEST_CASE("emulation: a reduction by shuffles and shared memory, in any order of threads") {
  const int rows = 37, cols = 100;
  const std::vector<float> x = ramp(size_t(rows * cols));
  const Buffer<float> in(x), out(rows);
  const Stream stream;
  for (const auto order : {weft::emulation::Order::Fixed, weft::emulation::Order::Random}) {
    knobs().order = order;
    for (const unsigned threads : {32u, 128u, 256u}) {
      CHECK(run(stream.handle, row_sums, rows, threads, in.at, out.at, cols) == cudaSuccess);
      stream.wait();
      const std::vector<float> sums = out.read();
      for (int r = 0; r < rows; ++r) {
        float expected = 0;
        for (int c = 0; c < cols; ++c) expected += x[size_t(r * cols + c)];
        CHECK(sums[size_t(r)] == expected);
      }
    }
  }
}

TEST_CASE("emulation: a transposition through shared memory with blocks of two dimensions") {
  const int rows = 48, cols = 64;
  const std::vector<float> x = ramp(size_t(rows * cols));
  const Buffer<float> in(x), out(x.size());
  const Stream stream;
  run(stream.handle, transpose, dim3(cols / kTile, rows / kTile), dim3(kTile, kTile), in.at, out.at, rows, cols);
  stream.wait();
  const std::vector<float> y = out.read();
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) CHECK(y[size_t(c * rows + r)] == x[size_t(r * cols + c)]);
}

TEST_CASE("emulation: warp functions") {
  const Buffer<int> out(32 * 8);
  const Stream stream;
  run(stream.handle, warp_functions, 1, 32, out.at);
  stream.wait();
  const std::vector<int> got = out.read();
  for (int lane = 0; lane < 32; ++lane) {
    const int* mine = &got[size_t(lane * 8)];
    CHECK(mine[0] == (lane < 3 ? lane : lane - 3));
    CHECK(mine[1] == (lane % 16 + 5 < 16 ? lane + 5 : lane));
    CHECK(mine[2] == lane / 8 * 8 + 1);
    CHECK(mine[3] == 0x49249249);
    const int pair = lane + (lane ^ 1);
    CHECK(mine[4] == (lane < 16 ? pair : pair * 4));
    CHECK(mine[5] == (lane >= 16));
    CHECK(mine[6] == (lane < 16));
    CHECK(mine[7] == (lane ^ 1));
  }
}

TEST_CASE("emulation: atomics over blocks and barriers that vote") {
  const Buffer<int> total(std::vector<int>{0}), votes(50);
  const Stream stream;
  run(stream.handle, counts, 50, 70, total.at, votes.at);
  stream.wait();
  CHECK(total.read()[0] == 50 * 70);
  for (const int vote : votes.read()) CHECK(vote == 1000 + 35);
}

TEST_CASE("emulation: shared and device memory are NaN at first") {
  const Buffer<int> nan(8);
  CHECK(nan.read() == std::vector<int>(8, -1));
  const Stream stream;
  run(stream.handle, poisoned, 1, 32, nan.at);
  stream.wait();
  CHECK(nan.read() == std::vector<int>(8, 1));
}

TEST_CASE("emulation: launches that a device would refuse") {
  const Stream stream;
  const Buffer<int> out(8);
  CHECK(run(stream.handle, poisoned, 1, 1025, out.at) == cudaErrorInvalidConfiguration);
  CHECK(run(stream.handle, poisoned, 0, 32, out.at) == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaSuccess);
  int a_multiprocessor = 0;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&a_multiprocessor, poisoned, 256, 0) == cudaSuccess);
  CHECK(a_multiprocessor == 8);
  const unsigned fit = unsigned(a_multiprocessor * knobs().sms);
  CHECK(run_resident(stream.handle, poisoned, fit + 1, 256, out.at) == cudaErrorCooperativeLaunchTooLarge);
}
