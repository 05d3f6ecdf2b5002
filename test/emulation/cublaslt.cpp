#include "include/cublasLt.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <set>
#include <thread>

#include "streams.h"
#include "weft/numeric.h"

struct cublasLtContext {};

struct cublasLtMatmulDescOpaque_t {
  int32_t compute, scale, pointer_mode = 0, transpose_a = 0, transpose_b = 0, bias_type = -1;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  int64_t bias_batch_stride = 0;
};

struct cublasLtMatrixLayoutOpaque_t {
  uint32_t type;
  int32_t order = CUBLASLT_ORDER_COL, batch = 1;
  uint64_t rows, cols;
  int64_t ld, batch_stride = 0;
};

struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t workspace = 0;
  uint32_t alignments[4] = {};  // of A, B, C and D
};

namespace weft::emulation {

namespace {

using Layout = cublasLtMatrixLayoutOpaque_t;
using Desc = cublasLtMatmulDescOpaque_t;

struct Matmul {
  Desc desc;
  Layout a, b, c, d;
  const void *a_at, *b_at, *c_at;
  void* d_at;
  double alpha, beta;
};

size_t size_of(uint32_t type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }

template <class F>
auto with_type(uint32_t type, F&& f) {
  switch (type) {
    case CUDA_R_32F:
      return f(float());
    case CUDA_R_64F:
      return f(double());
    case CUDA_R_16F:
      return f(half(0.0f));
    default:
      return f(bfloat16(0.0f));
  }
}

int64_t offset_of(const Layout& l, int64_t row, int64_t col) {
  return l.order == CUBLASLT_ORDER_ROW ? row * l.ld + col : col * l.ld + row;
}

/// The number of elements from the first through the last one of a batch.
int64_t span_of(const Layout& l) { return offset_of(l, int64_t(l.rows) - 1, int64_t(l.cols) - 1) + 1; }

/// The matrix op(X) of one batch in row-major order.
template <class Sum>
std::vector<Sum> load(const Layout& l, const void* at, int64_t batch, bool transposed) {
  const int64_t rows = int64_t(transposed ? l.cols : l.rows), cols = int64_t(transposed ? l.rows : l.cols);
  std::vector<Sum> out(size_t(rows * cols));
  with_type(l.type, [&](auto zero) {
    using T = decltype(zero);
    const T* from = static_cast<const T*>(at) + batch * l.batch_stride;
    tsan_reads(from, size_t(span_of(l)) * sizeof(T));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c)
        out[size_t(r * cols + c)] = Sum(from[transposed ? offset_of(l, c, r) : offset_of(l, r, c)]);
  });
  return out;
}

/// sum[m][n] += a[m][k] * b[k][n], k in order.
template <class Sum>
void multiply(int64_t m, int64_t n, int64_t k, const Sum* a, const Sum* b, Sum* sum) {
  constexpr int64_t kColumns = 512;
  for (int64_t first = 0; first < n; first += kColumns) {
    const int64_t last = std::min(n, first + kColumns);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t x = 0; x < k; ++x) {
        const Sum factor = a[i * k + x];
        const Sum* row = b + x * n;
        for (int64_t j = first; j < last; ++j) sum[i * n + j] += factor * row[j];
      }
  }
}

template <class Sum>
Sum finish(uint32_t epilogue, Sum value) {
  if (epilogue & CUBLASLT_EPILOGUE_RELU) return value > 0 || std::isnan(value) ? value : Sum(0);
  if (epilogue & CUBLASLT_EPILOGUE_GELU)
    return Sum(0.5) * value *
           (1 + std::tanh(Sum(0.7978845608028654) * (value + Sum(0.044715) * value * value * value)));
  return value;
}

/// The bias has an element for each row of D and is the same for all columns.
template <class Sum>
void run_batch(const Matmul& x, int64_t batch) {
  const int64_t m = int64_t(x.d.rows), n = int64_t(x.d.cols);
  const int64_t k = int64_t(x.desc.transpose_a ? x.a.rows : x.a.cols);
  const std::vector<Sum> a = load<Sum>(x.a, x.a_at, batch, x.desc.transpose_a);
  const std::vector<Sum> b = load<Sum>(x.b, x.b_at, batch, x.desc.transpose_b);
  std::vector<Sum> sum(size_t(m * n), Sum(0)), c, bias(size_t(m), Sum(0));
  multiply(m, n, k, a.data(), b.data(), sum.data());
  if (x.beta != 0) c = load<Sum>(x.c, x.c_at, batch, false);
  if (x.desc.epilogue & CUBLASLT_EPILOGUE_BIAS) {
    Layout row{.type = x.desc.bias_type < 0 ? x.d.type : uint32_t(x.desc.bias_type),
               .rows = uint64_t(m),
               .cols = 1,
               .ld = m,
               .batch_stride = x.desc.bias_batch_stride};
    bias = load<Sum>(row, x.desc.bias, batch, false);
  }
  with_type(x.d.type, [&](auto zero) {
    using T = decltype(zero);
    T* to = static_cast<T*>(x.d_at) + batch * x.d.batch_stride;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const size_t at = size_t(i * n + j);
        const Sum value = Sum(x.alpha) * sum[at] + (x.beta != 0 ? Sum(x.beta) * c[at] : Sum(0)) + bias[size_t(i)];
        T& place = to[offset_of(x.d, i, j)];
        tsan_writes(&place, sizeof(T));
        place = T(finish(x.desc.epilogue, value));
      }
  });
}

bool run(const Matmul& x) {
  for (int64_t batch = 0; batch < x.d.batch; ++batch)
    if (x.desc.compute == CUBLAS_COMPUTE_64F)
      run_batch<double>(x, batch);
    else
      run_batch<float>(x, batch);
  return true;
}

bool fits(const Layout& l) {
  const int64_t least = int64_t(l.order == CUBLASLT_ORDER_ROW ? l.cols : l.rows);
  return l.rows > 0 && l.cols > 0 && l.ld >= least && l.batch >= 1 &&
         (l.order == CUBLASLT_ORDER_ROW || l.order == CUBLASLT_ORDER_COL);
}

cublasStatus_t check(const Desc& desc, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  const uint64_t m = desc.transpose_a ? a.cols : a.rows, k = desc.transpose_a ? a.rows : a.cols;
  const uint64_t k_of_b = desc.transpose_b ? b.cols : b.rows, n = desc.transpose_b ? b.rows : b.cols;
  if (!fits(a) || !fits(b) || !fits(c) || !fits(d)) return CUBLAS_STATUS_INVALID_VALUE;
  if (k != k_of_b || m != d.rows || n != d.cols || c.rows != d.rows || c.cols != d.cols)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (a.batch != d.batch || b.batch != d.batch || c.batch != d.batch) return CUBLAS_STATUS_INVALID_VALUE;
  if (desc.pointer_mode != CUBLASLT_POINTER_MODE_HOST || a.type != b.type || c.type != d.type)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool wide = desc.compute == CUBLAS_COMPUTE_64F;
  if (wide != (desc.scale == CUDA_R_64F) || wide != (d.type == CUDA_R_64F) || wide != (a.type == CUDA_R_64F))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

/// The key of a kernel: the device, and a product without its addresses.
using KernelOf = std::vector<int64_t>;

KernelOf kernel_of(int device, const Desc& desc, const Layout* const (&layouts)[3], const cublasLtMatmulAlgo_t& algo) {
  KernelOf out = {device, desc.compute, desc.transpose_a, desc.transpose_b, int64_t(desc.epilogue)};
  for (const Layout* l : layouts)
    for (const int64_t number : {int64_t(l->type), int64_t(l->order), int64_t(l->batch), int64_t(l->rows),
                                 int64_t(l->cols), l->ld, l->batch_stride})
      out.push_back(number);
  for (const uint64_t word : algo.data) out.push_back(int64_t(word));
  return out;
}

/// The first use of a kernel loads it, and that waits for all kernels of the context: for ever, where ranks share it
/// and one of them waits for what another has not issued yet.
void load_kernel(const KernelOf& kernel) {
  constexpr std::chrono::milliseconds kLoading(1);
  static std::set<KernelOf>& loaded = *new std::set<KernelOf>;
  {
    const QuietGuard guard(state_lock());
    if (!loaded.insert(kernel).second) return;
  }
  std::this_thread::sleep_for(kLoading);
  if (is_polled_and_shared(int(kernel[0])))
    fail("cuBLASLt loads the kernel of a product while a kernel waits on the same device, which several ranks share");
}

bool aligned(const void* at, uint32_t type) { return reinterpret_cast<uintptr_t>(at) % size_of(type) == 0; }

/// A field of the size that the caller says.
template <class T>
cublasStatus_t take(T& field, const void* value, size_t bytes) {
  if (bytes != sizeof(T) || value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(&field, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace weft::emulation

using namespace weft::emulation;

size_t cublasLtGetVersion() { return 130000; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "an unknown status";
}
const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return *handle = new cublasLtContext, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return delete handle, CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType_t scale) {
  return *desc = new cublasLtMatmulDescOpaque_t{.compute = compute, .scale = scale}, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return delete desc, CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
      return take(desc->compute, value, bytes);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
      return take(desc->scale, value, bytes);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return take(desc->pointer_mode, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return take(desc->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return take(desc->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return take(desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return take(desc->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
      return take(desc->bias_batch_stride, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return take(desc->bias_type, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, uint64_t rows,
                                          uint64_t cols, int64_t ld) {
  *layout = new cublasLtMatrixLayoutOpaque_t{.type = uint32_t(type), .rows = rows, .cols = cols, .ld = ld};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return delete layout, CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return take(layout->type, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return take(layout->order, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return take(layout->rows, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return take(layout->cols, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return take(layout->ld, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return take(layout->batch, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return take(layout->batch_stride, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return *preference = new cublasLtMatmulPreferenceOpaque_t, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return delete preference, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return take(preference->workspace, value, bytes);
  const int operand = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  return operand < 0 ? CUBLAS_STATUS_INVALID_VALUE : take(preference->alignments[operand], value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference,
                                              int wanted, cublasLtMatmulHeuristicResult_t results[], int* found) {
  *found = 0;
  const cublasStatus_t status = check(*desc, *a, *b, *c, *d);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
  *found = 1;
  cublasLtMatmulAlgo_t algo = {};
  std::copy_n(preference->alignments, 4, algo.data);
  results[0] = {.algo = algo, .workspaceSize = 0, .state = CUBLAS_STATUS_SUCCESS, .wavesCount = 1, .reserved = {}};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo, void*, size_t,
                              cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const cublasStatus_t status = check(*desc, *a_layout, *b_layout, *c_layout, *d_layout);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (!aligned(a, a_layout->type) || !aligned(b, b_layout->type) || !aligned(d, d_layout->type))
    return CUBLAS_STATUS_INVALID_VALUE;
  if ((desc->epilogue & CUBLASLT_EPILOGUE_BIAS) && desc->bias == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const auto scalar = [&](const void* at) {
    return desc->scale == CUDA_R_64F ? *static_cast<const double*>(at) : double(*static_cast<const float*>(at));
  };
  load_kernel(kernel_of(current_device(), *desc, {a_layout, b_layout, d_layout},
                        algo == nullptr ? cublasLtMatmulAlgo_t{} : *algo));
  const Matmul x{*desc, *a_layout, *b_layout, *c_layout, *d_layout, a, b, c, d, scalar(alpha), scalar(beta)};
  const cudaError_t error = enqueue(stream, [x](Operation&) { return run(x); });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
