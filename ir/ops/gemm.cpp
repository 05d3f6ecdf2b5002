// Gemm (ONNX Gemm-13) and FusedMatMul (com.microsoft): scaled matrix products of transposed operands. Both become plain
// products, so that layouts and kernels handle one form. Transposing a weight costs nothing: the packer resolves it.
//
//   Gemm(A, B, C, transB)  ->  Add(Mul(MatMul(A, Transpose(B)), alpha), Mul(C, beta))     factors of 1 are left out
//
// A product of integers is an integer product. A factor that is not an integer scales it in f64.
#include <algorithm>
#include <cmath>

#include "ir/ops/formula.h"
#include "ir/tied_extents.h"

namespace weftc {

namespace {

bool transposes(const Op& op, const char* attr) { return int_of(op, attr) != 0; }

/// Both operands of the product have k. C has those dims of the result that are not broadcast.
std::vector<LengthRelation> relate_gemm(const OpView& op) {
  const bool a_turned = transposes(op.op(), "transA"), b_turned = transposes(op.op(), "transB");
  std::vector<LengthRelation> relations{
      {"", length_of(op.type(0).shape[!a_turned]), length_of(op.type(1).shape[b_turned])}};
  const Shape& result = op.result_type(0).shape;
  const Shape bias = op.has(2) ? op.type(2).shape : Shape{};
  for (size_t d = 0; d < bias.size(); ++d)
    if (!is_one(bias[d]))
      relations.push_back({"", length_of(result[result.size() - bias.size() + d]), length_of(bias[d])});
  return relations;
}

/// A and B are matrices (after transposition [m, k] and [k, n]). C is broadcast to [m, n] and must not enlarge it.
bool infer_gemm(const OpView& op, std::vector<TensorType>& results) {
  if (!same_dtypes(op) || !has_ndim(op, 0, 2, 2) || !has_ndim(op, 1, 2, 2)) return false;
  const bool a_turned = transposes(op.op(), "transA"), b_turned = transposes(op.op(), "transB");
  const Shape &a = op.type(0).shape, &b = op.type(1).shape;
  const Extent m = a[a_turned], k = a[!a_turned], other = b[b_turned], n = b[!b_turned];
  if (!one_extent(k, other))
    return op.fail("gemm-inner-dim", "inner dimensions differ: {} and {}", shape_text({k}), shape_text({other}));
  const Shape shape{m, n};
  if (op.has(2) && !is_broadcast_to(op.type(2).shape, shape))
    return op.fail("gemm-bias", "C of shape {} does not fit a result of shape {}", shape_text(op.type(2).shape),
                   shape_text(shape));
  results = {{op.type(0).dtype, shape, {}}};
  return true;
}

/// x * factor, or x.
Term scaled(Term x, double factor) { return factor == 1 ? x : x * factor; }

/// Whether x times the factor is computed in the type of x.
bool is_scaled_as(DType dtype, double factor) {
  const double least = is_signed_int(dtype) ? INT32_MIN : 0;
  return is_float(dtype) || (std::floor(factor) == factor && factor >= least && factor <= INT32_MAX);
}

/// alpha * product + beta * c, in the type of the product.
ValueId scaled_sum(Term product, double alpha, std::optional<Term> c, double beta) {
  const DType dtype = product.dtype();
  if (beta == 0) c = {};
  const bool is_plain = is_scaled_as(dtype, alpha) && (!c || is_scaled_as(dtype, beta));
  if (!is_plain) product = product.cast(DType::F64), c = c ? std::optional(c->cast(DType::F64)) : c;
  Term sum = scaled(product, alpha);
  if (c) sum = sum + scaled(*c, beta);
  return (is_plain ? sum : sum.saturate(dtype)).value();
}

/// The bias is an Add of its own, as L4 requires: a product with a sliced k is a partial sum, to which a bias must be
/// added once.
std::vector<ValueId> decompose_gemm(Builder& build, const OpView& op) {
  const Op& gemm = op.op();
  ValueId a = gemm.inputs[0], b = gemm.inputs[1];
  const std::optional<Term> c = op.has(2) ? std::optional(Term(build, gemm.inputs[2])) : std::nullopt;
  if (transposes(gemm, "transA")) a = build.transpose(a, {1, 0});
  if (transposes(gemm, "transB")) b = build.transpose(b, {1, 0});
  const double alpha = real_of(gemm, "alpha"), beta = real_of(gemm, "beta");
  return {scaled_sum({build, build.op(OpKind::MatMul, {a, b})}, alpha, c, beta)};
}

/// The dims of operand 0 or 1 of a FusedMatMul, or a list with an entry for each, in MatMul's order. A transposed batch
/// stands between the two dims of the matrices.
template <class List>
List as_matrices(const Op& op, int operand, List list) {
  if (transposes(op, operand == 0 ? "transBatchA" : "transBatchB"))
    std::rotate(list.begin(), list.begin() + 1, list.end() - 1);
  if (transposes(op, operand == 0 ? "transA" : "transB")) std::swap(list[list.size() - 1], list[list.size() - 2]);
  return list;
}

/// A batch can be transposed between operands of the same number of dimensions.
bool has_fitting_batches(const OpView& op) {
  if (!transposes(op.op(), "transBatchA") && !transposes(op.op(), "transBatchB")) return true;
  const int a = op.type(0).ndim(), b = op.type(1).ndim();
  return (a == b && a > 2) || op.fail("fused-matmul-batch",
                                      "transBatchA and transBatchB need operands of the same number of dimensions, at "
                                      "least 3, not {} and {}",
                                      a, b);
}

/// MatMul's rule.
bool infer_fused_matmul(const OpView& op, std::vector<TensorType>& results) {
  if (!same_dtypes(op) || !has_ndim(op, 0, 2) || !has_ndim(op, 1, 2) || !has_fitting_batches(op)) return false;
  const Shape a = as_matrices(op.op(), 0, op.type(0).shape), b = as_matrices(op.op(), 1, op.type(1).shape);
  std::optional<Shape> shape = broadcast({Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2)});
  if (!one_extent(a.back(), b[b.size() - 2]) || !shape)
    return op.fail("fused-matmul-dims", "shapes {} and {} do not multiply", shape_text(a), shape_text(b));
  shape->push_back(a[a.size() - 2]);
  shape->push_back(b.back());
  results = {{op.type(0).dtype, *shape, {}}};
  return true;
}

std::vector<ValueId> decompose_fused_matmul(Builder& build, const OpView& op) {
  const Op matmul = op.op();  // NOLINT(performance-unnecessary-copy-initialization): ops move
  const auto matrices = [&](int operand) {
    const std::vector<int64_t> dims = range_of(0, op.type(operand).ndim()), perm = as_matrices(matmul, operand, dims);
    const ValueId x = matmul.inputs[static_cast<size_t>(operand)];
    return perm == dims ? x : build.transpose(x, perm);
  };
  const ValueId a = matrices(0), b = matrices(1);
  return {scaled_sum({build, build.op(OpKind::MatMul, {a, b})}, real_of(matmul, "alpha"), {}, 0)};
}

}  // namespace

const OpDef kGemm{
    .kind = OpKind::Gemm,
    .name = "Gemm",
    .onnx = {"Gemm", 7},
    .attrs = {{"alpha", AttrType::Real, 1.0}, {"beta", AttrType::Real, 1.0}, flag("transA", 0), flag("transB", 0)},
    .inputs = {2, 3},
    .infer = infer_gemm,
    .relate = relate_gemm,
    .decompose = decompose_gemm};

const OpDef kFusedMatMul{.kind = OpKind::FusedMatMul,
                         .name = "FusedMatMul",
                         .onnx = {"FusedMatMul", 1, "com.microsoft"},
                         .attrs = {{"alpha", AttrType::Real, 1.0},
                                   flag("transA", 0),
                                   flag("transB", 0),
                                   flag("transBatchA", 0),
                                   flag("transBatchB", 0)},
                         .inputs = {2, 2},
                         .infer = infer_fused_matmul,
                         .decompose = decompose_fused_matmul};

}  // namespace weftc
