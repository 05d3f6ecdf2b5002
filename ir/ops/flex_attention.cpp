// The two products of an attention. In between, the model changes scores and probabilities (FlexAttention of
// ai.onnx.preview, which the reader unfolds):
//
//   AttentionScores(q, k)  ->  q k^T * scale     [batch, heads, queries, keys]
//   AttentionMix(p, v)     ->  p v
//
// Each head of keys and values serves heads / key heads neighbouring heads of queries.
#include <cmath>

#include "ir/ops/formula.h"
#include "ir/ops/operand_shapes.h"

namespace weftc {

namespace {

/// True if both operands have four dimensions, and the first one's heads are a multiple of the second one's. Heads and
/// their sizes are fixed; the batch and the lengths may be run-time lengths.
bool check_heads(const OpView& op, std::initializer_list<int> fixed_of_first) {
  for (int i : {0, 1})
    if (!is_real_operand(op, i) || !has_ndim(op, i, 4, 4) || !is_fixed_dim(op, i, 1)) return false;
  for (const int d : fixed_of_first)
    if (!is_fixed_dim(op, 0, d)) return false;
  if (!is_fixed_dim(op, 1, 3)) return false;
  const Dims a = op.dims(0), b = op.dims(1);
  if (b[1] > 0 && a[1] % b[1] == 0) return true;
  return op.fail("attention-heads", "shapes {} and {} have no common heads", dims_text(a), dims_text(b));
}

/// Keys must have the queries' batch and size.
OperandShapes shapes_of_keys(const OpView& op) {
  const Shape q = op.type(0).shape, k = op.type(1).shape;
  return {{1, {q[0], k[1], k[2], q[3]}}};
}

/// Values must have the probabilities' batch, and one row for each key.
OperandShapes shapes_of_values(const OpView& op) {
  const Shape p = op.type(0).shape, v = op.type(1).shape;
  return {{1, {p[0], v[1], p[3], v[3]}}};
}

/// Products of the rows of each head with the matrix of its group, [batch, heads, rows, columns]. Heads that share a
/// matrix become rows of one product. With a run-time number of rows they stay separate, and each reads the matrix.
Term by_groups(Term rows, Term matrices, const Extent& columns) {
  const Shape a = rows.shape(), b = matrices.shape();
  const int64_t group = a[1].bound / b[1].bound;
  const Shape result{a[0], a[1], a[2], columns};
  if (group == 1) return product(rows, matrices);
  if (!a[2].is_run_time())
    return product(rows.reshape_to({a[0], b[1], {group * a[2].bound}, a[3]}), matrices).reshape_to(result);
  return product(rows.reshape_to({a[0], b[1], {group}, a[2], a[3]}), matrices.reshape_to({b[0], b[1], {1}, b[2], b[3]}))
      .reshape_to(result);
}

DType scores_dtype(const OpView& op) {
  return op.op().has("softmax_precision") ? dtype_of_attr(op.op().integer("softmax_precision"))
                                          : wide(op.type(0).dtype);
}

bool infer_scores(const OpView& op, std::vector<TensorType>& results) {
  if (!check_heads(op, {3}) || !same_dtypes(op) || !have_shapes(op, shapes_of_keys(op), "attention-dims")) return false;
  if (!is_float(scores_dtype(op)))
    return op.fail("attention-precision", "scores have element type {}, a floating type is needed",
                   dtype_name(scores_dtype(op)));
  const Shape q = op.type(0).shape, k = op.type(1).shape;
  results = {{scores_dtype(op), {q[0], q[1], q[2], k[2]}, {}}};
  return true;
}

std::vector<ValueId> decompose_scores(Builder& build, const OpView& op) {
  const Term q(build, op.op().inputs[0]), k(build, op.op().inputs[1]);
  const double scale = op.op().has("scale") ? op.op().real("scale") : 1 / std::sqrt(static_cast<double>(q.dims()[3]));
  const DType dtype = op.result_type(0).dtype;
  return {(by_groups(q.cast(dtype), k.cast(dtype).transpose({0, 1, 3, 2}), k.shape()[2]) * scale).value()};
}

bool infer_mix(const OpView& op, std::vector<TensorType>& results) {
  if (!check_heads(op, {}) || !have_shapes(op, shapes_of_values(op), "attention-dims")) return false;
  const Shape p = op.type(0).shape, v = op.type(1).shape;
  results = {{op.type(1).dtype, {p[0], p[1], p[2], v[3]}, {}}};
  return true;
}

std::vector<ValueId> decompose_mix(Builder& build, const OpView& op) {
  const Term p(build, op.op().inputs[0]), v(build, op.op().inputs[1]);
  return {by_groups(p, v.cast(p.dtype()), v.shape()[3]).cast(v.dtype()).value()};
}

}  // namespace

const OpDef kAttentionScores{
    .kind = OpKind::AttentionScores,
    .name = "AttentionScores",
    .onnx = {"AttentionScores", 1, "weft"},
    .attrs = {{"scale", AttrType::Real}, {"softmax_precision", AttrType::Int}},
    .inputs = {2, 2},
    .import = [](Graph& graph, OpId id, int,
                 const OpView& view) { return import_dtype(graph, id, "softmax_precision", view); },
    .infer = infer_scores,
    .relate = [](const OpView& op) { return relations_of(op, shapes_of_keys(op)); },
    .decompose = decompose_scores};

const OpDef kAttentionMix{.kind = OpKind::AttentionMix,
                          .name = "AttentionMix",
                          .onnx = {"AttentionMix", 1, "weft"},
                          .inputs = {2, 2},
                          .infer = infer_mix,
                          .relate = [](const OpView& op) { return relations_of(op, shapes_of_values(op)); },
                          .decompose = decompose_mix};

}  // namespace weftc
