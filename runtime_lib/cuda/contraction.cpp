// Contractions by cuBLASLt. It thinks in columns: a row-major product is that of the transposes in the other order,
// y' = b' a'. What it cannot do (an epilogue of doubles, sums of nothing) a kernel of ours does behind it.
#include <algorithm>
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

/// What makes two calls equal: one algorithm serves both.
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

/// A product as the library knows it, with the algorithm that it chose.
struct Matmul {
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, result = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};
  bool has_epilogue = false;  // else ours follows
};

struct LibraryContractions final : Contractions {
  LibraryContractions() { check_lt(lt.create(&handle), "its start"); }
  ~LibraryContractions() override;
  const Matmul& matmul_of(const Contraction& c, DType dtype, const CallSite& site, const int (&alignments)[3]);
  bool choose(Matmul& matmul, const Contraction& c, DType dtype, bool with_epilogue, const int (&alignments)[3]);

  const CublasLt& lt = open_cublaslt();
  cublasLtHandle_t handle = nullptr;
  std::map<CallSite, Matmul> matmuls;
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

cublasLtMatmulPreference_t make_preference(const CublasLt& lt, const int (&alignments)[3]) {
  cublasLtMatmulPreference_t preference = nullptr;
  check_lt(lt.create_preference(&preference), "a preference");
  const uint64_t workspace = kContractionScratch;
  check_lt(lt.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace),
           "the size of a workspace");
  constexpr cublasLtMatmulPreferenceAttributes_t kAttributes[] = {
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
  for (int i = 0; i < 4; ++i) {
    const uint32_t bytes = uint32_t(alignments[std::min(i, 2)]);
    check_lt(lt.set_preference(preference, kAttributes[i], &bytes, sizeof bytes), "an alignment");
  }
  return preference;
}

/// False where the library has no algorithm.
bool LibraryContractions::choose(Matmul& m, const Contraction& c, DType dtype, bool with_epilogue,
                                 const int (&alignments)[3]) {
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

const Matmul& LibraryContractions::matmul_of(const Contraction& c, DType dtype, const CallSite& site,
                                             const int (&alignments)[3]) {
  const auto [entry, is_new] = matmuls.try_emplace(site);
  Matmul& matmul = entry->second;
  if (!is_new || choose(matmul, c, dtype, dtype != DType::F64, alignments)) return matmul;
  destroy(lt, matmul);
  matmul = {};
  if (!choose(matmul, c, dtype, false, alignments))
    fail(kBug, "cuBLASLt has no algorithm for a %s contraction of m %ld, n %ld, k %ld", dtype_name(dtype), long(c.m),
         long(c.n), long(c.k));
  return matmul;
}

CallSite site_of(const Contraction& c, DType dtype, const int (&alignments)[3]) {
  return {{c.m, c.n, c.k, c.batch, int64_t(dtype), int64_t(c.epilogue), c.a.row, c.a.column, c.a.batch, c.b.row,
           c.b.column, c.b.batch, c.y.row, c.y.column, c.y.batch, alignments[0], alignments[1], alignments[2]}};
}

/// y by columns without a bias is the transposed product.
Contraction transposed(Contraction c) {
  const auto swap = [](Matrix m) { return Matrix{m.column, m.row, m.batch, m.outer}; };
  return {c.n, c.m, c.k, swap(c.b), swap(c.a), swap(c.y), c.batch, c.outer, c.epilogue};
}

const char* element_at(const void* base, int64_t index, DType dtype) {
  return static_cast<const char*>(base) + index * element_bytes(dtype);
}

}  // namespace

std::unique_ptr<Contractions> make_contractions() { return std::make_unique<LibraryContractions>(); }

void Rank::contract(const Contraction& c, DType dtype, const void* a, const void* b, const void* bias, void* y) {
  if (c.m == 0 || c.n == 0 || c.batch == 0 || c.outer == 0) return;
  if (!has_bias(c.epilogue)) bias = nullptr;
  if (c.k == 0) return apply_epilogue(state_.stream(), c, dtype, bias, y, true);
  if (c.y.column != 1 && c.n > 1) {
    if (bias != nullptr || c.y.row != 1) fail(kBug, "a contraction writes its result by columns, with a bias");
    return contract(transposed(c), dtype, b, a, nullptr, y);
  }
  auto& library = static_cast<LibraryContractions&>(*state_.contractions);
  // Where outer steps move the operands, the smallest alignment of all counts.
  const auto alignment = [&](const void* at, const Matrix& m) {
    const int64_t step = (c.outer > 1 ? m.outer : 0) * element_bytes(dtype);
    return std::min(alignment_of(at), alignment_of(reinterpret_cast<const void*>(step)));
  };
  const int alignments[] = {alignment(b, c.b), alignment(a, c.a), alignment(y, c.y)};
  const Matmul& matmul = library.matmul_of(c, dtype, site_of(c, dtype, alignments), alignments);
  const CublasLt& lt = library.lt;
  if (bias != nullptr && matmul.has_epilogue)
    check_lt(lt.set_matmul(matmul.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias), "a bias");
  const float one = 1, zero = 0;
  const double double_one = 1, double_zero = 0;
  const bool is_double = dtype == DType::F64;
  const void* alpha = is_double ? static_cast<const void*>(&double_one) : &one;
  const void* beta = is_double ? static_cast<const void*>(&double_zero) : &zero;
  char* const workspace = state_.scratch(kContractionScratch);
  for (int64_t o = 0; o < c.outer; ++o) {
    const char *first = element_at(b, o * c.b.outer, dtype), *second = element_at(a, o * c.a.outer, dtype);
    char* const result = const_cast<char*>(element_at(y, o * c.y.outer, dtype));
    check_lt(lt.matmul(library.handle, matmul.desc, alpha, first, matmul.first, second, matmul.second, beta, result,
                       matmul.result, result, matmul.result, &matmul.algorithm, workspace, size_t(kContractionScratch),
                       state_.stream()),
             "a product");
  }
  if (!matmul.has_epilogue && c.epilogue != Epilogue::None) apply_epilogue(state_.stream(), c, dtype, bias, y, false);
}

}  // namespace weft
