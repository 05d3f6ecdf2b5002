// Gemm (ONNX Gemm-13) and FusedMatMul (com.microsoft): scaled matrix products of transposed operands. Both
// become plain products, so that layouts and kernels know one form; transpositions of weights cost nothing (the
// packer resolves them).
//
//   Gemm(A, B, C, transB)  ->  Add(Mul(MatMul(A, Transpose(B)), alpha), Mul(C, beta))     factors of 1 are left out
#include "ir/ops/composite.h"
#include "ir/tied_extents.h"

namespace weftc {

namespace {

bool transposes(const Op& op, const char* attr) { return int_of(op, attr) != 0; }

/// Both operands of the product have k, and C has what is not broadcast of the result.
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

/// A and B are matrices (after transposition [m, k] and [k, n]); C is broadcast to [m, n] and must not make it
/// larger.
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
ValueId scaled(Builder& build, ValueId x, double factor) {
  return factor == 1 ? x : with_scalar(build, OpKind::Mul, x, factor);
}

/// The bias is an Add of its own, as L4 asks: a product with a sliced k is a partial sum, to which a bias must
/// be added once.
std::vector<ValueId> decompose_gemm(Builder& build, const OpView& op) {
  const Op& gemm = op.op();
  ValueId a = gemm.inputs[0], b = gemm.inputs[1];
  const ValueId c = op.has(2) ? gemm.inputs[2] : ValueId{};
  if (transposes(gemm, "transA")) a = build.transpose(a, {1, 0});
  if (transposes(gemm, "transB")) b = build.transpose(b, {1, 0});
  const ValueId product = scaled(build, build.op(OpKind::MatMul, {a, b}), real_of(gemm, "alpha"));
  const double beta = real_of(gemm, "beta");
  return {c && beta != 0 ? add(build, product, scaled(build, c, beta)) : product};
}

/// The shape of a transposed matrix, behind leading dims.
Shape swapped(const Shape& shape) {
  Shape result = shape;
  std::swap(result[result.size() - 1], result[result.size() - 2]);
  return result;
}

/// MatMul's rule on operands whose last two dims are swapped first.
bool infer_fused_matmul(const OpView& op, std::vector<TensorType>& results) {
  if (!same_dtypes(op) || !has_ndim(op, 0, 2) || !has_ndim(op, 1, 2)) return false;
  if (transposes(op.op(), "transBatchA") || transposes(op.op(), "transBatchB"))
    return op.fail("fused-matmul-batch-unsupported", "transBatchA and transBatchB are not supported");
  const Shape a = transposes(op.op(), "transA") ? swapped(op.type(0).shape) : op.type(0).shape;
  const Shape b = transposes(op.op(), "transB") ? swapped(op.type(1).shape) : op.type(1).shape;
  std::optional<Shape> shape = broadcast({Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2)});
  if (!one_extent(a.back(), b[b.size() - 2]) || !shape)
    return op.fail("fused-matmul-dims", "shapes {} and {} do not multiply", shape_text(a), shape_text(b));
  shape->push_back(a[a.size() - 2]);
  shape->push_back(b.back());
  results = {{op.type(0).dtype, *shape, {}}};
  return true;
}

/// Swaps the last two dims.
ValueId matrix_transpose(Builder& build, ValueId x) {
  std::vector<int64_t> perm = range_of(0, build.type(x).ndim());
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return build.transpose(x, perm);
}

std::vector<ValueId> decompose_fused_matmul(Builder& build, const OpView& op) {
  const Op& matmul = op.op();
  ValueId a = matmul.inputs[0], b = matmul.inputs[1];
  if (transposes(matmul, "transA")) a = matrix_transpose(build, a);
  if (transposes(matmul, "transB")) b = matrix_transpose(build, b);
  return {scaled(build, build.op(OpKind::MatMul, {a, b}), real_of(matmul, "alpha"))};
}

}  // namespace

const OpDef kGemm{.kind = OpKind::Gemm,
                  .name = "Gemm",
                  .onnx = {"Gemm", 7},
                  .attrs = {{"alpha", AttrType::Real, 1.0},
                            {"beta", AttrType::Real, 1.0},
                            {"transA", AttrType::Int, 0},
                            {"transB", AttrType::Int, 0}},
                  .inputs = {2, 3},
                  .infer = infer_gemm,
                  .relate = relate_gemm,
                  .decompose = decompose_gemm};

const OpDef kFusedMatMul{.kind = OpKind::FusedMatMul,
                         .name = "FusedMatMul",
                         .onnx = {"FusedMatMul", 1, "com.microsoft"},
                         .attrs = {{"alpha", AttrType::Real, 1.0},
                                   {"transA", AttrType::Int, 0},
                                   {"transB", AttrType::Int, 0},
                                   {"transBatchA", AttrType::Int, 0},
                                   {"transBatchB", AttrType::Int, 0}},
                         .inputs = {2, 2},
                         .infer = infer_fused_matmul,
                         .decompose = decompose_fused_matmul};

}  // namespace weftc
