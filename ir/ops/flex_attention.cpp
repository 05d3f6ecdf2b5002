// The two products of an attention whose scores and probabilities a model changes in between (FlexAttention of
// ai.onnx.preview, which the reader unfolds):
//
//   AttentionScores(q, k)  ->  q k^T * scale     [batch, heads, queries, keys]
//   AttentionMix(p, v)     ->  p v
//
// A head of keys and values serves as many neighbouring heads of queries as there are for each.
#include <cmath>

#include "ir/ops/formula.h"

namespace weftc {

namespace {

/// True if both operands have four dimensions, equal batches, and heads of which the first one's are a multiple.
bool check_heads(const OpView& op) {
  for (int i : {0, 1})
    if (!is_real_operand(op, i) || !has_ndim(op, i, 4, 4) || !is_fixed(op, i)) return false;
  const Dims a = op.dims(0), b = op.dims(1);
  if (a[0] == b[0] && b[1] > 0 && a[1] % b[1] == 0) return true;
  return op.fail("attention-heads", "shapes {} and {} have no common batch and heads", dims_text(a), dims_text(b));
}

DType scores_dtype(const OpView& op) {
  return op.op().has("softmax_precision") ? dtype_of_attr(op.op().integer("softmax_precision"))
                                          : wide(op.type(0).dtype);
}

bool infer_scores(const OpView& op, std::vector<TensorType>& results) {
  if (!check_heads(op) || !same_dtypes(op)) return false;
  const Dims q = op.dims(0), k = op.dims(1);
  if (q[3] != k[3]) return op.fail("attention-heads", "queries of {} elements meet keys of {}", q[3], k[3]);
  if (!is_float(scores_dtype(op)))
    return op.fail("attention-precision", "scores have element type {}, a floating type is needed",
                   dtype_name(scores_dtype(op)));
  results = {{scores_dtype(op), shape_of({q[0], q[1], q[2], k[2]}), {}}};
  return true;
}

/// Query heads that share a head of keys are rows of one product.
std::vector<ValueId> decompose_scores(Builder& build, const OpView& op) {
  const Dims q = op.dims(0), k = op.dims(1);
  const double scale = op.op().has("scale") ? op.op().real("scale") : 1 / std::sqrt(static_cast<double>(q[3]));
  const DType dtype = op.result_type(0).dtype;
  const Term rows = Term(build, op.op().inputs[0]).cast(dtype).reshape({q[0], k[1], q[1] / k[1] * q[2], q[3]});
  const Term keys = Term(build, op.op().inputs[1]).cast(dtype).transpose({0, 1, 3, 2});
  return {(product(rows, keys) * scale).reshape({q[0], q[1], q[2], k[2]}).value()};
}

bool infer_mix(const OpView& op, std::vector<TensorType>& results) {
  if (!check_heads(op)) return false;
  const Dims p = op.dims(0), v = op.dims(1);
  if (p[3] != v[2]) return op.fail("attention-heads", "probabilities of {} keys meet {} values", p[3], v[2]);
  results = {{op.type(1).dtype, shape_of({p[0], p[1], p[2], v[3]}), {}}};
  return true;
}

std::vector<ValueId> decompose_mix(Builder& build, const OpView& op) {
  const Dims p = op.dims(0), v = op.dims(1);
  const DType dtype = op.type(1).dtype;
  const Term rows = Term(build, op.op().inputs[0]).reshape({p[0], v[1], p[1] / v[1] * p[2], p[3]});
  const Term values = Term(build, op.op().inputs[1]).cast(rows.dtype());
  return {product(rows, values).cast(dtype).reshape({p[0], p[1], p[2], v[3]}).value()};
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
    .decompose = decompose_scores};

const OpDef kAttentionMix{.kind = OpKind::AttentionMix,
                          .name = "AttentionMix",
                          .onnx = {"AttentionMix", 1, "weft"},
                          .inputs = {2, 2},
                          .infer = infer_mix,
                          .decompose = decompose_mix};

}  // namespace weftc
