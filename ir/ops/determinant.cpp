// Det (ONNX Det-22) by unrolled Gaussian elimination: each step uses the row with the largest first element as pivot
// and leaves a matrix with one row and one column less.
#include "ir/ops/formula.h"

namespace weftc {

namespace {

constexpr int64_t kMostRows = 64;

bool infer_det(const OpView& op, std::vector<TensorType>& results) {
  if (!is_real_operand(op, 0) || !has_ndim(op, 0, 2) || !is_fixed(op, 0)) return false;
  Dims dims = op.dims(0);
  const int64_t rows = dims.back();
  if (dims[dims.size() - 2] != rows) return op.fail("det-dims", "matrices of shape {} are not square", dims_text(dims));
  if (rows > kMostRows)
    return op.fail("det-rows-unsupported", "the determinant of {} rows is not supported, only up to {}", rows,
                   kMostRows);
  dims.resize(dims.size() - 2);
  results = {{op.type(0).dtype, shape_of(dims), {}}};
  return true;
}

/// One step: the pivot's factor of the determinant, and the remaining matrices [count, rows - 1, rows - 1].
std::pair<Term, Term> eliminate(Builder& build, Term a, int64_t count, int64_t rows) {
  const Term size = a.slice(2, 0, 1).reshape({count, rows}).apply(OpKind::Abs);
  const Term at(build, build.op(OpKind::ArgMax, {size.value()}, {{"axis", int64_t{1}}, {"keepdims", int64_t{1}}}));
  const Term is_pivot = (positions(build, DType::I64, rows, 1, 2) == at).reshape({count, rows, 1});
  const Term pivot = is_pivot.choose(a, a.scalar(0)).reduce(OpKind::ReduceSum, {1}, true);
  const Term swapped = is_pivot.choose(a.slice(1, 0, 1), a).slice(1, 1, rows);
  const Term first = pivot.slice(2, 0, 1), is_singular = first == 0;
  const Term ratio = swapped.slice(2, 0, 1) / is_singular.choose(first.scalar(1), first);
  const Term left = swapped.slice(2, 1, rows) - ratio * pivot.slice(2, 1, rows);
  const Term value = first.reshape({count});
  return {(at.reshape({count}) == 0).choose(value, 0 - value), left};
}

std::vector<ValueId> decompose_det(Builder& build, const OpView& op) {
  const Dims dims = op.dims(0), result = op.result_type(0).dims();
  const DType dtype = op.type(0).dtype;
  const int64_t rows = dims.back(), count = element_count(result);
  Term a = Term(build, op.op().inputs[0]).cast(wide(dtype)).reshape({count, rows, rows});
  Term product = constant(build, a.dtype(), {count}, std::vector<double>(count, 1));
  for (int64_t left = rows; left > 0; --left) {
    if (left == 1) {
      product = product * a.reshape({count});
      break;
    }
    const auto [pivot, rest] = eliminate(build, a, count, left);
    product = product * pivot;
    a = rest;
  }
  return {product.reshape(result).cast(dtype).value()};
}

}  // namespace

const OpDef kDet{
    .kind = OpKind::Det, .name = "Det", .onnx = {"Det", 11}, .infer = infer_det, .decompose = decompose_det};

}  // namespace weftc
