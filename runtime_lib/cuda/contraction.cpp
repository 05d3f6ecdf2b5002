// Contractions by cuBLASLt. The library is column-major: a row-major product is the product of the transposes in
// reverse order, y' = b' a'. A kernel of the runtime then does what the library cannot: epilogues of doubles, empty
// sums.
//
// Ranks that share a device must know each product of the library before they issue it: see CudaState::make_ready.
#include <algorithm>
#include <array>
#include <compare>

#include "cuda_state.h"
#include "kernels.h"
#include "libraries.h"

namespace weft {

namespace {

void check_lt(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(kBug, "cuBLASLt: %s: %s", what, open_cublaslt().status_text(status));
}

/// A matrix as cuBLASLt sees it: columns lie `ld` apart; `is_transposed`: the operand is its transpose.
struct Columns {
  int64_t rows, cols, ld, batch_stride;
  bool is_transposed;
};

/// The transpose of a matrix of `rows` x `cols`.
Columns transpose_of(const Matrix& m, int64_t rows, int64_t cols) {
  if (m.column == 1 && (m.row >= cols || rows == 1)) return {cols, rows, std::max(m.row, cols), m.batch, false};
  return {rows, cols, std::max(m.column, rows), m.batch, true};
}

/// One call of Rank::contract.
struct Product {
  Contraction c;
  DType dtype;
  const void *a, *b, *bias;
  void* y;
  int stream;
};

/// Alignments of the library's operands and of its result.
using Alignments = std::array<int, 3>;

/// The key of a call. Calls with equal keys share one algorithm.
struct CallSite {
  int64_t numbers[20] = {};
  auto operator<=>(const CallSite&) const = default;
};

int alignment_of(const void* at) {
  const auto bits = reinterpret_cast<uintptr_t>(at);
  return int(bits == 0 ? 256 : std::min<uintptr_t>(256, bits & -bits));
}

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return CUDA_R_32F;
    case DType::F64:
      return CUDA_R_64F;
    case DType::F16:
      return CUDA_R_16F;
    case DType::BF16:
      return CUDA_R_16BF;
    default:
      fail(kBug, "a contraction of %s", dtype_name(dtype));
  }
}

cublasLtEpilogue_t library_epilogue(Epilogue epilogue) {
  constexpr cublasLtEpilogue_t kEpilogues[] = {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS,
                                               CUBLASLT_EPILOGUE_RELU,    CUBLASLT_EPILOGUE_RELU_BIAS,
                                               CUBLASLT_EPILOGUE_GELU,    CUBLASLT_EPILOGUE_GELU_BIAS};
  return kEpilogues[int(epilogue)];
}

bool has_bias(Epilogue epilogue) {
  return epilogue == Epilogue::Bias || epilogue == Epilogue::BiasRelu || epilogue == Epilogue::BiasGelu;
}

/// The library's description of a product, with the algorithm that it chose.
struct Matmul {
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, result = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};
  bool has_epilogue = false;  // else a kernel of the runtime follows
};

struct LibraryContractions final : Contractions {
  LibraryContractions() { check_lt(lt.create(&handle), "its start"); }
  ~LibraryContractions() override;
  void load(CudaState& state) override;
  void contract(CudaState& state, const Product& product);
  const Matmul& matmul_of(const Product& p);
  bool choose(Matmul& matmul, const Contraction& c, DType dtype, bool with_epilogue, const Alignments& alignments);
  void issue(const Matmul& matmul, const Product& product, int64_t outer, char* workspace, cudaStream_t stream);

  const CublasLt& lt = open_cublaslt();
  cublasLtHandle_t handle = nullptr;
  std::map<CallSite, Matmul> matmuls;
  std::map<CallSite, Product> to_load;  // encountered, but in none of the above yet
};

void destroy(const CublasLt& lt, const Matmul& m) {
  if (m.desc != nullptr) lt.destroy_matmul(m.desc);
  for (const cublasLtMatrixLayout_t layout : {m.first, m.second, m.result})
    if (layout != nullptr) lt.destroy_layout(layout);
}

LibraryContractions::~LibraryContractions() {
  for (const auto& [site, matmul] : matmuls) destroy(lt, matmul);
  lt.destroy(handle);
}

cublasLtMatrixLayout_t make_layout(const CublasLt& lt, const Columns& m, DType dtype, int64_t batch) {
  cublasLtMatrixLayout_t layout = nullptr;
  check_lt(lt.create_layout(&layout, type_of(dtype), uint64_t(m.rows), uint64_t(m.cols), m.ld), "a layout");
  const int32_t count = int32_t(batch);
  check_lt(lt.set_layout(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), "a batch");
  check_lt(lt.set_layout(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m.batch_stride, sizeof m.batch_stride),
           "the stride of a batch");
  return layout;
}

cublasLtMatmulPreference_t make_preference(const CublasLt& lt, const Alignments& alignments) {
  cublasLtMatmulPreference_t preference = nullptr;
  check_lt(lt.create_preference(&preference), "a preference");
  const uint64_t workspace = kContractionScratch;
  check_lt(lt.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace),
           "the size of a workspace");
  constexpr cublasLtMatmulPreferenceAttributes_t kAttributes[] = {
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
  for (int i = 0; i < 4; ++i) {
    const uint32_t bytes = uint32_t(alignments[size_t(std::min(i, 2))]);
    check_lt(lt.set_preference(preference, kAttributes[i], &bytes, sizeof bytes), "an alignment");
  }
  return preference;
}

/// False if the library has no algorithm.
bool LibraryContractions::choose(Matmul& m, const Contraction& c, DType dtype, bool with_epilogue,
                                 const Alignments& alignments) {
  const Columns first = transpose_of(c.b, c.k, c.n), second = transpose_of(c.a, c.m, c.k);
  const bool is_double = dtype == DType::F64;
  check_lt(lt.create_matmul(&m.desc, is_double ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                            is_double ? CUDA_R_64F : CUDA_R_32F),
           "a product");
  const cublasOperation_t on_first = first.is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t on_second = second.is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  check_lt(lt.set_matmul(m.desc, CUBLASLT_MATMUL_DESC_TRANSA, &on_first, sizeof on_first), "an operand");
  check_lt(lt.set_matmul(m.desc, CUBLASLT_MATMUL_DESC_TRANSB, &on_second, sizeof on_second), "an operand");
  const cublasLtEpilogue_t epilogue = with_epilogue ? library_epilogue(c.epilogue) : CUBLASLT_EPILOGUE_DEFAULT;
  check_lt(lt.set_matmul(m.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue), "an epilogue");
  m.first = make_layout(lt, first, dtype, c.batch);
  m.second = make_layout(lt, second, dtype, c.batch);
  m.result = make_layout(lt, {c.n, c.m, std::max(c.y.row, c.n), c.y.batch, false}, dtype, c.batch);
  const cublasLtMatmulPreference_t preference = make_preference(lt, alignments);
  cublasLtMatmulHeuristicResult_t result = {};
  int found = 0;
  const cublasStatus_t status =
      lt.heuristic(handle, m.desc, m.first, m.second, m.result, m.result, preference, 1, &result, &found);
  lt.destroy_preference(preference);
  m.algorithm = result.algo;
  m.has_epilogue = with_epilogue;
  return status == CUBLAS_STATUS_SUCCESS && found > 0;
}

/// Where outer steps move an operand, the smallest alignment of all counts.
Alignments alignments_of(const Product& p) {
  const auto alignment = [&](const void* at, const Matrix& m) {
    const int64_t step = (p.c.outer > 1 ? m.outer : 0) * element_bytes(p.dtype);
    return std::min(alignment_of(at), alignment_of(reinterpret_cast<const void*>(step)));
  };
  return {alignment(p.b, p.c.b), alignment(p.a, p.c.a), alignment(p.y, p.c.y)};
}

CallSite site_of(const Product& p) {
  const Contraction& c = p.c;
  const Alignments alignments = alignments_of(p);
  return {{c.m, c.n, c.k, c.batch, int64_t(p.dtype), int64_t(c.epilogue), c.a.row, c.a.column, c.a.batch, c.b.row,
           c.b.column, c.b.batch, c.y.row, c.y.column, c.y.batch, alignments[0], alignments[1], alignments[2]}};
}

const Matmul& LibraryContractions::matmul_of(const Product& p) {
  const auto [entry, is_new] = matmuls.try_emplace(site_of(p));
  Matmul& matmul = entry->second;
  const Alignments alignments = alignments_of(p);
  if (!is_new || choose(matmul, p.c, p.dtype, p.dtype != DType::F64, alignments)) return matmul;
  destroy(lt, matmul);
  matmul = {};
  if (!choose(matmul, p.c, p.dtype, false, alignments))
    fail(kBug, "cuBLASLt has no algorithm for a %s contraction of m %ld, n %ld, k %ld", dtype_name(p.dtype),
         long(p.c.m), long(p.c.n), long(p.c.k));
  return matmul;
}

/// A column-major y without a bias is the transposed product.
Contraction transposed(Contraction c) {
  const auto swap = [](Matrix m) { return Matrix{m.column, m.row, m.batch, m.outer}; };
  return {c.n, c.m, c.k, swap(c.b), swap(c.a), swap(c.y), c.batch, c.outer, c.epilogue};
}

const char* element_at(const void* base, int64_t index, DType dtype) {
  return static_cast<const char*>(base) + index * element_bytes(dtype);
}

/// The library's part of the first `outer` products.
void LibraryContractions::issue(const Matmul& matmul, const Product& p, int64_t outer, char* workspace,
                                cudaStream_t stream) {
  if (p.bias != nullptr && matmul.has_epilogue)
    check_lt(lt.set_matmul(matmul.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p.bias, sizeof p.bias), "a bias");
  const float one = 1, zero = 0;
  const double double_one = 1, double_zero = 0;
  const bool is_double = p.dtype == DType::F64;
  const void* alpha = is_double ? static_cast<const void*>(&double_one) : &one;
  const void* beta = is_double ? static_cast<const void*>(&double_zero) : &zero;
  for (int64_t o = 0; o < outer; ++o) {
    const char* first = element_at(p.b, o * p.c.b.outer, p.dtype);
    const char* second = element_at(p.a, o * p.c.a.outer, p.dtype);
    char* const result = const_cast<char*>(element_at(p.y, o * p.c.y.outer, p.dtype));
    check_lt(
        lt.matmul(handle, matmul.desc, alpha, first, matmul.first, second, matmul.second, beta, result, matmul.result,
                  result, matmul.result, &matmul.algorithm, workspace, size_t(kContractionScratch), stream),
        "a product");
  }
}

/// If the library is not ready for a product, a kernel of the runtime computes it.
void LibraryContractions::contract(CudaState& state, const Product& p) {
  if (state.sharers > 1) {
    const CallSite site = site_of(p);
    const bool is_known = matmuls.contains(site);
    if (!is_known) to_load.try_emplace(site, p);
    if (state.is_rehearsing()) return static_cast<void>(state.scratch(kContractionScratch));
    if (!is_known) return contract_plainly(state.stream(), p.c, p.dtype, p.a, p.b, p.bias, p.y);
  }
  const Matmul& matmul = matmul_of(p);
  issue(matmul, p, p.c.outer, state.scratch(kContractionScratch), state.stream());
  if (!matmul.has_epilogue && p.c.epilogue != Epilogue::None) apply_epilogue(state.stream(), p.c, p.dtype, p.bias, p.y);
}

/// The bytes from the result's first element through its last one.
int64_t result_bytes(const Product& p) {
  return ((p.c.batch - 1) * p.c.y.batch + (p.c.m - 1) * std::max(p.c.y.row, p.c.n) + p.c.n) * element_bytes(p.dtype);
}

/// Only running a product guarantees that everything it needs is loaded. Operands may have any values. The result goes
/// to unused memory with the same alignment as its own.
void LibraryContractions::load(CudaState& state) {
  constexpr int64_t kAlignment = 256;
  if (to_load.empty()) return;
  int64_t most = 0;
  for (const auto& [site, product] : to_load) most = std::max(most, result_bytes(product));
  const DeviceBytes spare = device_bytes(most + kAlignment, "memory to load products with");
  for (auto& [site, product] : to_load) {
    const Matmul& matmul = matmul_of(product);
    char* const workspace = state.scratch_of(product.stream, kContractionScratch);
    product.y = spare.get() + reinterpret_cast<uintptr_t>(product.y) % kAlignment;
    issue(matmul, product, 1, workspace, state.streams[0]);
  }
  to_load.clear();
  state.wait_for(state.streams[0]);
}

}  // namespace

std::unique_ptr<Contractions> make_contractions() { return std::make_unique<LibraryContractions>(); }

void Rank::contract(const Contraction& c, DType dtype, const void* a, const void* b, const void* bias, void* y) {
  if (c.m == 0 || c.n == 0 || c.batch == 0 || c.outer == 0) return;
  if (!has_bias(c.epilogue)) bias = nullptr;
  if (c.k == 0) {
    if (!state_.is_rehearsing()) contract_plainly(state_.stream(), c, dtype, a, b, bias, y);
    return;
  }
  if (c.y.column != 1 && c.n > 1) {
    if (bias != nullptr || c.y.row != 1) fail(kBug, "a contraction writes its result by columns, with a bias");
    return contract(transposed(c), dtype, b, a, nullptr, y);
  }
  static_cast<LibraryContractions&>(*state_.contractions)
      .contract(state_, {c, dtype, a, b, bias, y, state_.stream_number()});
}

}  // namespace weft
