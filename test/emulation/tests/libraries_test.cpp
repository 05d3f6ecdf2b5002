// cuBLASLt and NCCL on the CPU, against plain loops.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <thread>

#include "../../larger.h"
#include "cublasLt.h"
#include "device.h"
#include "nccl.h"
#include "weft/numeric.h"

namespace {

template <class T>
constexpr cudaDataType_t kType = CUDA_R_32F;
template <>
constexpr cudaDataType_t kType<double> = CUDA_R_64F;
template <>
constexpr cudaDataType_t kType<weft::half> = CUDA_R_16F;
template <>
constexpr cudaDataType_t kType<weft::bfloat16> = CUDA_R_16BF;

struct Shape {
  int64_t m, n, k, batch;
};

struct LayoutHandle {
  cublasLtMatrixLayout_t handle;
  LayoutHandle(cudaDataType_t type, int64_t rows, int64_t cols, int64_t ld, int64_t batch, int64_t stride) {
    const int32_t batches = int32_t(batch);
    cublasLtMatrixLayoutCreate(&handle, type, uint64_t(rows), uint64_t(cols), ld);
    cublasLtMatrixLayoutSetAttribute(handle, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, sizeof batches);
    cublasLtMatrixLayoutSetAttribute(handle, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
  }
  ~LayoutHandle() { cublasLtMatrixLayoutDestroy(handle); }
};

double finished(uint32_t epilogue, double v) {
  if (epilogue & CUBLASLT_EPILOGUE_RELU) return v > 0 ? v : 0;
  if (epilogue & CUBLASLT_EPILOGUE_GELU) return 0.5 * v * (1 + std::tanh(0.7978845608 * (v + 0.044715 * v * v * v)));
  return v;
}

template <class T>
std::vector<T> values(size_t n, double scale) {
  std::vector<T> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = T(float(scale * (double(i * 7 % 23) - 11)));
  return out;
}

/// Row-major y = a @ b + bias, asked as the column-major product of the transposes; b may lie transposed.
template <class T>
void check_matmul(const Shape& s, uint32_t epilogue, bool b_transposed, double tolerance) {
  const std::vector<T> a = values<T>(size_t(s.batch * s.m * s.k), 0.03),
                       b = values<T>(size_t(s.batch * s.k * s.n), 0.05), bias = values<T>(size_t(s.n), 0.1);
  const Buffer<T> da(a), db(b), dbias(bias), dy(size_t(s.batch * s.m * s.n));
  const bool wide = std::is_same_v<T, double>;
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t desc;
  cublasLtCreate(&handle);
  cublasLtMatmulDescCreate(&desc, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, wide ? CUDA_R_64F : CUDA_R_32F);
  const int32_t transposed = b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
  cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
  cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &dbias.at, sizeof dbias.at);
  const LayoutHandle first = b_transposed ? LayoutHandle(kType<T>, s.k, s.n, s.k, s.batch, s.k * s.n)
                                          : LayoutHandle(kType<T>, s.n, s.k, s.n, s.batch, s.k * s.n);
  const LayoutHandle second(kType<T>, s.k, s.m, s.k, s.batch, s.m * s.k),
      out(kType<T>, s.n, s.m, s.n, s.batch, s.m * s.n);
  const float one = 1, zero = 0;
  const double wide_one = 1, wide_zero = 0;
  const Stream stream;
  CHECK(cublasLtMatmul(handle, desc, wide ? static_cast<const void*>(&wide_one) : &one, db.at, first.handle, da.at,
                       second.handle, wide ? static_cast<const void*>(&wide_zero) : &zero, dy.at, out.handle, dy.at,
                       out.handle, nullptr, nullptr, 0, stream.handle) == CUBLAS_STATUS_SUCCESS);
  stream.wait();
  const std::vector<T> y = dy.read();
  double worst = 0;
  for (int64_t i = 0; i < s.batch; ++i)
    for (int64_t m = 0; m < s.m; ++m)
      for (int64_t n = 0; n < s.n; ++n) {
        double sum = epilogue & CUBLASLT_EPILOGUE_BIAS ? double(bias[size_t(n)]) : 0;
        for (int64_t k = 0; k < s.k; ++k)
          sum += double(a[size_t((i * s.m + m) * s.k + k)]) *
                 double(b[size_t(i * s.k * s.n + (b_transposed ? n * s.k + k : k * s.n + n))]);
        worst = larger(worst, std::abs(finished(epilogue, sum) - double(y[size_t((i * s.m + m) * s.n + n)])));
      }
  CHECK(worst < tolerance);
  cublasLtMatmulDescDestroy(desc);
  cublasLtDestroy(handle);
}

/// Runs a body on each rank: its own thread, device, communicator and stream.
void on_ranks(int n, const std::function<void(int, ncclComm_t, cudaStream_t)>& body) {
  weft::emulation::knobs().devices = 8;
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank)
    threads.emplace_back([&, rank] {
      cudaSetDevice(rank);
      const Stream stream;
      ncclComm_t comm;
      CHECK(ncclCommInitRank(&comm, n, id, rank) == ncclSuccess);
      body(rank, comm, stream.handle);
      stream.wait();
      ncclCommDestroy(comm);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("emulation: matmul with layouts, batches and epilogues") {
  const Shape s{5, 7, 9, 1}, batched{4, 6, 3, 3}, wide{3, 600, 2, 1};
  for (const uint32_t epilogue : {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU,
                                  CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS}) {
    check_matmul<float>(s, epilogue, false, 1e-6);
    check_matmul<float>(batched, epilogue, true, 1e-6);
    check_matmul<double>(s, epilogue, false, 1e-9);
  }
  check_matmul<float>(wide, CUBLASLT_EPILOGUE_BIAS, false, 1e-6);
  check_matmul<weft::half>(s, CUBLASLT_EPILOGUE_BIAS, false, 2e-3);
  check_matmul<weft::bfloat16>(batched, CUBLASLT_EPILOGUE_DEFAULT, false, 1e-2);
}

TEST_CASE("emulation: matmul refuses what does not fit") {
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t desc;
  cublasLtCreate(&handle);
  cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  const LayoutHandle a(CUDA_R_32F, 4, 5, 4, 1, 0), b(CUDA_R_32F, 6, 3, 6, 1, 0), y(CUDA_R_32F, 4, 3, 4, 1, 0);
  cublasLtMatmulHeuristicResult_t result;
  int found = 1;
  CHECK(cublasLtMatmulAlgoGetHeuristic(handle, desc, a.handle, b.handle, y.handle, y.handle, nullptr, 1, &result,
                                       &found) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(found == 0);
  const int64_t too_long = 1;
  CHECK(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &too_long, sizeof too_long) ==
        CUBLAS_STATUS_INVALID_VALUE);
  cublasLtMatmulDescDestroy(desc);
  cublasLtDestroy(handle);
}

TEST_CASE("emulation: collectives between ranks") {
  constexpr int n = 3, count = 4;
  on_ranks(n, [](int rank, ncclComm_t comm, cudaStream_t stream) {
    std::vector<float> mine(n * count);
    for (size_t i = 0; i < mine.size(); ++i) mine[i] = float(100 * rank + int(i));
    const Buffer<float> in(mine), all(n * count), part(count), spread(n * count * n), turned(n * count);
    const Buffer<float> rooted(mine), received(count);
    CHECK(ncclAllReduce(in.at, all.at, n * count, ncclFloat, ncclSum, comm, stream) == ncclSuccess);
    ncclReduceScatter(in.at, part.at, count, ncclFloat, ncclMax, comm, stream);
    ncclAllGather(in.at, spread.at, n * count, ncclFloat, comm, stream);
    ncclAlltoAll(in.at, turned.at, count, ncclFloat, comm, stream);
    ncclBroadcast(rooted.at, rooted.at, n * count, ncclFloat, 1, comm, stream);
    ncclGroupStart();
    ncclSend(in.at, count, ncclFloat, (rank + 1) % n, comm, stream);
    ncclRecv(received.at, count, ncclFloat, (rank + n - 1) % n, comm, stream);
    ncclGroupEnd();
    cudaStreamSynchronize(stream);
    for (int i = 0; i < n * count; ++i) {
      CHECK(all.read()[size_t(i)] == 300 + 3 * i);
      CHECK(turned.read()[size_t(i)] == 100 * (i / count) + rank * count + i % count);
      CHECK(rooted.read()[size_t(i)] == 100 + i);
      for (int p = 0; p < n; ++p) CHECK(spread.read()[size_t(p * n * count + i)] == 100 * p + i);
    }
    for (int i = 0; i < count; ++i) {
      CHECK(part.read()[size_t(i)] == 200 + rank * count + i);
      CHECK(received.read()[size_t(i)] == 100 * ((rank + n - 1) % n) + i);
    }
  });
}

TEST_CASE("emulation: communicators split, and integers and halves reduce") {
  on_ranks(4, [](int rank, ncclComm_t comm, cudaStream_t stream) {
    ncclComm_t half_comm;
    CHECK(ncclCommSplit(comm, rank % 2, -rank, &half_comm, nullptr) == ncclSuccess);
    int size = 0, place = 0;
    ncclCommCount(half_comm, &size);
    ncclCommUserRank(half_comm, &place);
    CHECK(size == 2);
    CHECK(place == (rank < 2 ? 1 : 0));  // larger keys later
    const Buffer<int64_t> integers(std::vector<int64_t>{rank + 1});
    const Buffer<weft::half> halves(std::vector<weft::half>{weft::half(0.5f * float(rank))});
    ncclAllReduce(integers.at, integers.at, 1, ncclInt64, ncclProd, half_comm, stream);
    ncclAllReduce(halves.at, halves.at, 1, ncclHalf, ncclMin, half_comm, stream);
    cudaStreamSynchronize(stream);
    CHECK(integers.read()[0] == (rank % 2 ? 8 : 3));
    CHECK(float(halves.read()[0]) == 0.5f * float(rank % 2));
  });
}

TEST_CASE("emulation: collectives in a captured graph") {
  on_ranks(2, [](int rank, ncclComm_t comm, cudaStream_t stream) {
    const Buffer<float> sum(std::vector<float>{float(rank + 1)});
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    ncclAllReduce(sum.at, sum.at, 1, ncclFloat, ncclSum, comm, stream);
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    cudaGraphInstantiate(&exec, graph);
    for (int i = 0; i < 3; ++i) cudaGraphLaunch(exec, stream);
    cudaStreamSynchronize(stream);
    CHECK(sum.read()[0] == 12);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
  });
}

TEST_CASE("emulation: two ranks on one device are no communicator") {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  std::thread threads[2];
  for (int rank = 0; rank < 2; ++rank)
    threads[rank] = std::thread([&, rank] {
      ncclComm_t comm;
      CHECK(ncclCommInitRank(&comm, 2, id, rank) == ncclInvalidUsage);
    });
  for (std::thread& thread : threads) thread.join();
}
