// Streams, events, graphs, and kernels that wait for each other.
#include <doctest/doctest.h>

#include <thread>

#include "device.h"

namespace {

__global__ void scale(const float* x, float* y, float factor, int n) {
  for (int i = int(blockIdx.x * blockDim.x + threadIdx.x); i < n; i += int(gridDim.x * blockDim.x))
    y[i] = factor * x[i];
}
__global__ void add_one(uint32_t* word) { *word += 1; }

struct Mailbox {
  uint32_t* flags[2];
  float* data[2];
};

/// A block raises its flag at the other rank, and waits for the one that the same block there raises here.
void meet(const Mailbox& box, int rank, uint32_t value) {
  const int block = int(blockIdx.x);
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) {
    weft::emulation::store_release(box.flags[1 - rank] + block, value);
    while (weft::emulation::load_acquire(box.flags[rank] + block) < value) __nanosleep(64);
  }
  __syncthreads();
}

/// Each of two ranks writes its part to the other, and copies what came.
__global__ void exchange(const __grid_constant__ Mailbox box, int rank, uint32_t round, float* out, int n) {
  const int first = int(blockIdx.x * blockDim.x + threadIdx.x), step = int(gridDim.x * blockDim.x);
  for (int i = first; i < n; i += step) box.data[1 - rank][i] = float(rank + 1) * float(i + int(round));
  meet(box, rank, 2 * round - 1);
  for (int i = first; i < n; i += step) out[i] = box.data[rank][i];
  meet(box, rank, 2 * round);  // the next round may write
}

constexpr int kCount = 4096;

/// x -> y on one stream, y -> z on another.
void two_steps(const Stream& a, const Stream& b, const Event& done, const Buffer<float>& x, const Buffer<float>& y,
               const Buffer<float>& z) {
  run(a.handle, scale, 4, 64, x.at, y.at, 2.0f, kCount);
  cudaEventRecord(done.handle, a.handle);
  cudaStreamWaitEvent(b.handle, done.handle);
  run(b.handle, scale, 4, 64, y.at, z.at, 3.0f, kCount);
}

bool is_six_times(const std::vector<float>& z, const std::vector<float>& x) {
  for (size_t i = 0; i < x.size(); ++i)
    if (z[i] != 6 * x[i]) return false;
  return true;
}

}  // namespace

TEST_CASE("emulation: events order streams") {
  const Stream a, b;
  const Event done;
  const std::vector<float> values = ramp(kCount);
  const Buffer<float> x(values), y(kCount), z(kCount);
  for (int i = 0; i < 30; ++i) {
    cudaMemsetAsync(y.at, 0xff, kCount * sizeof(float), a.handle);
    two_steps(a, b, done, x, y, z);
    b.wait();
    CHECK(is_six_times(z.read(), values));
  }
  CHECK(cudaEventQuery(done.handle) == cudaSuccess);
  CHECK(cudaStreamQuery(a.handle) == cudaSuccess);
}

TEST_CASE("emulation: the default stream waits for blocking streams, not for others") {
  cudaStream_t blocking;
  cudaStreamCreate(&blocking);
  const Buffer<uint32_t> word(std::vector<uint32_t>{0});
  for (int i = 0; i < 40; ++i) run(blocking, add_one, 1, 1, word.at);
  CHECK(word.read()[0] == 40);  // cudaMemcpy is of the default stream
  cudaStreamDestroy(blocking);
}

TEST_CASE("emulation: a captured graph over two streams is replayed with the arguments of its capture") {
  const Stream a, b;
  const Event done, joined;
  const std::vector<float> values = ramp(kCount);
  const Buffer<float> x(values), y(kCount), z(kCount);
  const Buffer<uint32_t> count(std::vector<uint32_t>{0});
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(a.handle, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  run(a.handle, add_one, 1, 1, count.at);
  two_steps(a, b, done, x, y, z);
  cudaEventRecord(joined.handle, b.handle);
  cudaStreamWaitEvent(a.handle, joined.handle);
  CHECK(cudaStreamEndCapture(a.handle, &graph) == cudaSuccess);
  CHECK(count.read()[0] == 0);
  size_t nodes = 0;
  cudaGraphGetNodes(graph, nullptr, &nodes);
  CHECK(nodes == 3);

  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph) == cudaSuccess);
  cudaGraphDestroy(graph);
  for (int i = 0; i < 20; ++i) CHECK(cudaGraphLaunch(exec, a.handle) == cudaSuccess);
  a.wait();
  CHECK(count.read()[0] == 20);
  CHECK(is_six_times(z.read(), values));
  cudaGraphExecDestroy(exec);
}

TEST_CASE("emulation: captures that a device would refuse") {
  const Stream a, b;
  const Event event;
  const Buffer<uint32_t> count(std::vector<uint32_t>{0});
  cudaGraph_t graph;
  cudaStreamBeginCapture(a.handle, cudaStreamCaptureModeThreadLocal);
  cudaEventRecord(event.handle, a.handle);
  cudaStreamWaitEvent(b.handle, event.handle);
  run(b.handle, add_one, 1, 1, count.at);
  CHECK(cudaStreamEndCapture(a.handle, &graph) == cudaErrorStreamCaptureUnjoined);

  cudaStreamBeginCapture(a.handle, cudaStreamCaptureModeThreadLocal);
  CHECK(cudaStreamSynchronize(a.handle) == cudaErrorStreamCaptureUnsupported);
  CHECK(cudaStreamEndCapture(a.handle, &graph) == cudaErrorStreamCaptureInvalidated);

  cudaStreamBeginCapture(a.handle, cudaStreamCaptureModeThreadLocal);
  float* memory = nullptr;
  CHECK(cudaMalloc(&memory, 16) == cudaErrorStreamCaptureUnsupported);
  CHECK(cudaStreamEndCapture(a.handle, &graph) == cudaErrorStreamCaptureInvalidated);

  cudaEventRecord(event.handle, b.handle);
  cudaStreamBeginCapture(a.handle, cudaStreamCaptureModeThreadLocal);
  CHECK(cudaStreamWaitEvent(a.handle, event.handle) == cudaErrorStreamCaptureIsolation);
  CHECK(cudaStreamEndCapture(a.handle, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(count.read()[0] == 0);
}

TEST_CASE("emulation: resident kernels of two ranks exchange flags") {
  constexpr int kBlocks = 3, kThreads = 64, kRounds = 5, kItems = 500;
  const Buffer<uint32_t> flags0(std::vector<uint32_t>(kBlocks, 0)), flags1(std::vector<uint32_t>(kBlocks, 0));
  const Buffer<float> data0(kItems), data1(kItems), sum0(kItems), sum1(kItems);
  const Mailbox box{{flags0.at, flags1.at}, {data0.at, data1.at}};
  const Stream streams[2];
  std::thread ranks[2];
  for (int rank = 0; rank < 2; ++rank)
    ranks[rank] = std::thread([&, rank] {
      float* const sum = rank == 0 ? sum0.at : sum1.at;
      for (uint32_t round = 1; round <= kRounds; ++round) {
        run_resident(streams[rank].handle, exchange, kBlocks, kThreads, box, rank, round, sum, kItems);
        streams[rank].wait();
      }
    });
  for (std::thread& rank : ranks) rank.join();
  const std::vector<float> got0 = sum0.read(), got1 = sum1.read();
  for (int i = 0; i < kItems; ++i) {
    CHECK(got0[size_t(i)] == 2 * float(i + kRounds));
    CHECK(got1[size_t(i)] == float(i + kRounds));
  }
}

TEST_CASE("emulation: copies check what their kind says") {
  const Buffer<float> device(8);
  std::vector<float> host(8);
  const Stream stream;
  CHECK(cudaMemcpyAsync(device.at, device.at, 4, cudaMemcpyHostToDevice, stream.handle) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(device.at, host.data(), 4, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(host.data(), device.at, 4, cudaMemcpyDefault) == cudaSuccess);
  CHECK(cudaFree(host.data()) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("emulation: events measure time") {
  const Stream stream;
  const Event begin, end;
  cudaEventRecord(begin.handle, stream.handle);
  cudaLaunchHostFunc(
      stream.handle, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }, nullptr);
  cudaEventRecord(end.handle, stream.handle);
  cudaEventSynchronize(end.handle);
  float ms = 0;
  CHECK(cudaEventElapsedTime(&ms, begin.handle, end.handle) == cudaSuccess);
  CHECK(ms >= 4.9f);
}
